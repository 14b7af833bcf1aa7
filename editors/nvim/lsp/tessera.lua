-- SPDX-License-Identifier: Apache-2.0
-- The language server of the tile language, for vim.lsp.enable('tessera').
return {
    cmd = { vim.g.tessera_path or 'tessera', 'lsp' },
    filetypes = { 'tile' },
    root_markers = { '.git' },
    -- For which sizes derived schedules are shown: 'sm_90a', 'M=4096,N=1k', 'T=bf16'.
    init_options = {
        target = vim.g.tessera_target,
        sizes = vim.g.tessera_sizes,
        sets = vim.g.tessera_sets,
    },
}
