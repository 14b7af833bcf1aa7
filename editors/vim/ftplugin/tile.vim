" SPDX-License-Identifier: Apache-2.0
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1
setlocal commentstring=#\ %s comments=:# expandtab shiftwidth=4 softtabstop=4 textwidth=100
" `gq` over a whole file: `:%!tessera fmt -`
let b:undo_ftplugin = 'setlocal commentstring< comments< expandtab< shiftwidth< softtabstop< textwidth<'
