-- SPDX-License-Identifier: Apache-2.0
-- The language server of the tile language, for vim.lsp.enable('tessera').

-- The program of the installation in whose share/nvim/site/lsp this file lies, or that of PATH.
local function installed()
    local file = vim.fn.resolve(debug.getinfo(1, 'S').source:sub(2))
    local program = vim.fn.fnamemodify(file, ':p:h:h:h:h:h') .. '/bin/tessera'
    return vim.fn.executable(program) == 1 and program or 'tessera'
end

return {
    cmd = { vim.g.tessera_path or installed(), 'lsp' },
    filetypes = { 'tile' },
    root_markers = { '.git' },
    -- For which sizes derived schedules are shown: 'sm_90a', 'M=4096,N=1k', 'T=bf16'.
    init_options = {
        target = vim.g.tessera_target,
        sizes = vim.g.tessera_sizes,
        sets = vim.g.tessera_sets,
    },
}
