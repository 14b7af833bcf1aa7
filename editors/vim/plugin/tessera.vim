" SPDX-License-Identifier: Apache-2.0
" Registers the language server with the plugin for language servers that is installed: vim-lsp, or
" lsp by yegappan. g:tessera_path names the program, which is otherwise that of the installation in
" which this file lies, or of PATH; g:tessera_target, g:tessera_sizes and g:tessera_sets say for what
" derived schedules are shown.
if exists('g:loaded_tessera')
  finish
endif
let g:loaded_tessera = 1

" From share/vim/vimfiles/plugin of an installation.
let s:installed = fnamemodify(resolve(expand('<sfile>:p')), ':h:h:h:h:h') . '/bin/tessera'

function! s:Command() abort
  return get(g:, 'tessera_path', executable(s:installed) ? s:installed : 'tessera')
endfunction

function! s:Settings() abort
  let settings = {}
  for name in ['target', 'sizes', 'sets']
    if exists('g:tessera_' . name)
      let settings[name] = g:['tessera_' . name]
    endif
  endfor
  return settings
endfunction

augroup tessera
  autocmd!
  autocmd User lsp_setup call lsp#register_server({
        \ 'name': 'tessera',
        \ 'cmd': {info -> [s:Command(), 'lsp']},
        \ 'allowlist': ['tile'],
        \ 'initialization_options': s:Settings()})
  autocmd User LspSetup call LspAddServer([{
        \ 'name': 'tessera',
        \ 'filetype': ['tile'],
        \ 'path': s:Command(),
        \ 'args': ['lsp'],
        \ 'initializationOptions': s:Settings()}])
augroup END
