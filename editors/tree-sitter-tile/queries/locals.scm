; SPDX-License-Identifier: Apache-2.0
[(kernel) (function) (derivative) (block) (reduction)] @local.scope
(parameter name: (identifier) @local.definition.parameter)
(result name: (identifier) @local.definition.parameter)
(definition pattern: (identifier) @local.definition.var)
(array_pattern name: (identifier) @local.definition.var)
(tuple_pattern (identifier) @local.definition.var)
(axis name: (identifier) @local.definition.var)
(index_axis name: (identifier) @local.definition.var)
(identifier) @local.reference
