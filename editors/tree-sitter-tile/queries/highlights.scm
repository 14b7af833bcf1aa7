; SPDX-License-Identifier: Apache-2.0
(comment) @comment
(string) @string
(integer) @number
(float) @number.float
[(true) (false)] @boolean
(none) @constant.builtin
(identifier) @variable

((identifier) @type.builtin
  (#match? @type.builtin "^(bool|[iu](4|8|16|32|64)|b?f16|f32|f64|f8e4m3|f8e5m2)$"))
((identifier) @constant.builtin (#match? @constant.builtin "^(inf|nan)$"))
(type element: (identifier) @type)
(class_clause name: (identifier) @type class: (identifier) @type.builtin)

(kernel name: (identifier) @function)
(derived_kernel name: (identifier) @function)
(function name: (_) @function)
(derivative name: (_) @function)
(schedule kernel: (identifier) @function)
(tune kernel: (identifier) @function)
(call function: (identifier) @function.call)
(call function: (field_expression) @function.call)
(effect function: (_) @function.call)
(reduction function: (identifier) @function.call)

(parameter name: (identifier) @variable.parameter)
(result name: (identifier) @variable.parameter)
(named_argument name: (identifier) @variable.parameter)
(field_expression name: (identifier) @property)
(schedule_key) @property
(target) @constant

["kernel" "fn" "schedule" "tune" "let" "var" "derivative" "of" "assume" "unchecked"] @keyword
"import" @keyword.import
["if" "else"] @keyword.conditional
["for" "while" "parallel" "in" "by"] @keyword.repeat
[(break_statement) (continue_statement) "return"] @keyword.return
["const" "inout" "where" "on" "when" "as" "auto" "exactly" "launch"] @keyword.modifier
["and" "or" "not"] @keyword.operator
["->" "==" "!=" "<=" ">=" "<" ">" "<<" ">>" "+" "-" "*" "/" "//" "%" "@" "&" "|" "^" "~"
 "=" "+=" "-=" "*=" "/=" ".."] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";" ":" "."] @punctuation.delimiter
