-- SPDX-License-Identifier: Apache-2.0
-- Starts the language server in buffers of the tile language.
vim.filetype.add({ extension = { tile = 'tile' } })

if vim.fn.has('nvim-0.11') == 1 then
    vim.lsp.enable('tessera')
else
    vim.api.nvim_create_autocmd('FileType', {
        pattern = 'tile',
        callback = function(args)
            local file = vim.api.nvim_get_runtime_file('lsp/tessera.lua', false)[1]
            local config = dofile(file)
            config.name = 'tessera'
            config.root_dir = vim.fn.fnamemodify(args.file, ':p:h')
            vim.lsp.start(config)
        end,
    })
end

vim.api.nvim_create_autocmd('LspAttach', {
    callback = function(args)
        local client = vim.lsp.get_client_by_id(args.data.client_id)
        if client and client.name == 'tessera' and vim.lsp.inlay_hint then
            vim.lsp.inlay_hint.enable(true, { bufnr = args.buf })
        end
    end,
})
