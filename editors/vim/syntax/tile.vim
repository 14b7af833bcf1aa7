" SPDX-License-Identifier: Apache-2.0
" The tile language. To install: copy ftdetect, ftplugin and syntax into ~/.vim.
if exists('b:current_syntax')
  finish
endif

syntax keyword tileDeclaration kernel fn schedule tune import let var const inout
syntax keyword tileControl if else for while break continue parallel return
syntax keyword tileControl unchecked assert assume
syntax keyword tileWord in by and or not on auto exactly
syntax match tileWord /\<where\>(\@!/
syntax keyword tileConstant true false None inf nan
syntax keyword tileType bool i4 i8 i16 i32 i64 u4 u8 u16 u32 u64
syntax keyword tileType f8e4m3 f8e5m2 f16 bf16 f32 f64
syntax match tileFunction /\<\h\w*\%(\.\h\w*\)*\ze(/
syntax match tileNumber /\<\d[0-9_]*\>/
syntax match tileNumber /\<0[xX][0-9a-fA-F_]\+\>\|\<0[bB][01_]\+\>/
syntax match tileFloat /\%(\<\d[0-9_]*\)\?\.\d[0-9_]*\%([eE][-+]\?[0-9_]\+\)\?/
syntax match tileFloat /\<\d[0-9_]*[eE][-+]\?[0-9_]\+/
syntax region tileString start=/"/ skip=/\\./ end=/"\|$/
syntax match tileComment /#.*$/ contains=tileTodo,@Spell
syntax keyword tileTodo NOTE contained

highlight default link tileDeclaration Statement
highlight default link tileControl Conditional
highlight default link tileWord Operator
highlight default link tileConstant Constant
highlight default link tileType Type
highlight default link tileFunction Function
highlight default link tileNumber Number
highlight default link tileFloat Float
highlight default link tileString String
highlight default link tileComment Comment
highlight default link tileTodo Todo

let b:current_syntax = 'tile'
