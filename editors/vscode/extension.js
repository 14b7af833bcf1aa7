// SPDX-License-Identifier: Apache-2.0
// The extension: starts `tessera lsp`, tells it of open texts, and answers the editor by it.
'use strict';

const vscode = require('vscode');
const { Connection } = require('./connection');
const convert = require('./convert');

const LANGUAGE = 'tile';
const MAX_RESTARTS = 3; // after a server that ended by itself

let session = null; // of the server that runs
let restarts = 0;

function settings() {
    const given = vscode.workspace.getConfiguration('tessera');
    return { target: given.get('target'), sizes: given.get('sizes'), sets: given.get('sets') };
}

class Session {
    constructor() {
        this.diagnostics = vscode.languages.createDiagnosticCollection('tessera');
        this.hintsChanged = new vscode.EventEmitter();
        this.connection = new Connection(
            vscode.workspace.getConfiguration('tessera').get('path') || 'tessera', ['lsp'], {
                onNotification: (method, params) => this.notified(method, params),
                onRequest: (method) => this.requested(method),
                onEnd: (why) => this.ended(why),
            });
        this.disposables = [this.diagnostics, this.hintsChanged];
        this.closing = false;
    }

    async start() {
        await this.connection.request('initialize', {
            processId: process.pid,
            rootUri: null,
            capabilities: {
                textDocument: { publishDiagnostics: { relatedInformation: true } },
                workspace: { inlayHint: { refreshSupport: true } },
            },
            initializationOptions: settings(),
        });
        this.connection.notify('initialized', {});
        this.watchTexts();
        this.registerPlaces();
        this.registerWhole();
        vscode.workspace.textDocuments.forEach((document) => this.open(document));
    }

    // ---- what the server says ----

    notified(method, params) {
        if (method === 'textDocument/publishDiagnostics') {
            this.diagnostics.set(vscode.Uri.parse(params.uri),
                params.diagnostics.map(convert.diagnostic));
        }
    }

    requested(method) {
        if (method === 'workspace/inlayHint/refresh') {
            this.hintsChanged.fire();
        }
        return null;
    }

    ended(why) {
        if (this.closing) {
            return;
        }
        this.dispose();
        session = null;
        if (restarts++ < MAX_RESTARTS) {
            start();
        } else {
            vscode.window.showErrorMessage(
                `Tessera: ${why}. The setting tessera.path names the program.`);
        }
    }

    // ---- texts ----

    open(document) {
        if (document.languageId === LANGUAGE) {
            this.connection.notify('textDocument/didOpen', {
                textDocument: {
                    uri: document.uri.toString(),
                    languageId: LANGUAGE,
                    version: document.version,
                    text: document.getText(),
                },
            });
        }
    }

    change(event) {
        if (event.document.languageId === LANGUAGE && event.contentChanges.length > 0) {
            // The editor's ranges are of the text before all of them, from the last to the first.
            this.connection.notify('textDocument/didChange', {
                textDocument: {
                    uri: event.document.uri.toString(),
                    version: event.document.version,
                },
                contentChanges: event.contentChanges.map(
                    (c) => ({ range: convert.fromRange(c.range), text: c.text })),
            });
        }
    }

    close(document) {
        if (document.languageId === LANGUAGE) {
            this.connection.notify('textDocument/didClose', this.textDocument(document));
        }
    }

    watchTexts() {
        this.disposables.push(
            vscode.workspace.onDidOpenTextDocument((document) => this.open(document)),
            vscode.workspace.onDidChangeTextDocument((event) => this.change(event)),
            vscode.workspace.onDidCloseTextDocument((document) => this.close(document)),
            vscode.workspace.onDidChangeConfiguration((event) => {
                if (event.affectsConfiguration('tessera')) {
                    this.connection.notify('workspace/didChangeConfiguration',
                        { settings: { tessera: settings() } });
                }
            }));
    }

    // ---- what the editor asks ----

    textDocument(document) {
        return { textDocument: { uri: document.uri.toString() } };
    }

    /// The answer, made into a value of the editor; undefined where there is none.
    async ask(method, params, token, make) {
        try {
            const result = await this.connection.request(`textDocument/${method}`, params, token);
            return result === null ? undefined : make(result);
        } catch (error) {
            if (method === 'rename' || method === 'prepareRename') {
                throw error; // the editor shows why
            }
            return undefined;
        }
    }

    at(document, position, more = {}) {
        return { ...this.textDocument(document), position: convert.fromPosition(position), ...more };
    }

    registerPlaces() {
        const { languages } = vscode;
        this.disposables.push(
            languages.registerHoverProvider(LANGUAGE, {
                provideHover: (document, position, token) => this.ask('hover',
                    this.at(document, position), token,
                    (h) => new vscode.Hover(convert.markdown(h.contents), convert.range(h.range))),
            }),
            languages.registerDefinitionProvider(LANGUAGE, {
                provideDefinition: (document, position, token) => this.ask('definition',
                    this.at(document, position), token, convert.location),
            }),
            languages.registerReferenceProvider(LANGUAGE, {
                provideReferences: (document, position, context, token) => this.ask('references',
                    this.at(document, position, { context }), token,
                    (found) => found.map(convert.location)),
            }),
            languages.registerDocumentHighlightProvider(LANGUAGE, {
                provideDocumentHighlights: (document, position, token) => this.ask(
                    'documentHighlight', this.at(document, position), token,
                    (found) => found.map((f) => new vscode.DocumentHighlight(
                        convert.range(f.range)))),
            }),
            languages.registerRenameProvider(LANGUAGE, {
                prepareRename: (document, position, token) => this.ask('prepareRename',
                    this.at(document, position), token,
                    (p) => ({ range: convert.range(p.range), placeholder: p.placeholder })),
                provideRenameEdits: (document, position, newName, token) => this.ask('rename',
                    this.at(document, position, { newName }), token, convert.workspaceEdit),
            }),
            languages.registerCompletionItemProvider(LANGUAGE, {
                provideCompletionItems: (document, position, token) => this.ask('completion',
                    this.at(document, position), token,
                    (list) => list.items.map(convert.completionItem)),
            }, '.'),
            languages.registerSignatureHelpProvider(LANGUAGE, {
                provideSignatureHelp: (document, position, token) => this.ask('signatureHelp',
                    this.at(document, position), token, convert.signatureHelp),
            }, '(', ','));
    }

    registerWhole() {
        const { languages } = vscode;
        this.disposables.push(
            languages.registerDocumentSymbolProvider(LANGUAGE, {
                provideDocumentSymbols: (document, token) => this.ask('documentSymbol',
                    this.textDocument(document), token, (found) => found.map(convert.symbol)),
            }),
            languages.registerDocumentFormattingEditProvider(LANGUAGE, {
                provideDocumentFormattingEdits: (document, options, token) => this.ask(
                    'formatting', { ...this.textDocument(document), options }, token,
                    (edits) => edits.map(convert.textEdit)),
            }),
            languages.registerCodeActionsProvider(LANGUAGE, {
                provideCodeActions: (document, range, context, token) => this.ask('codeAction',
                    {
                        ...this.textDocument(document),
                        range: convert.fromRange(range),
                        context: { diagnostics: [] },
                    }, token, (found) => found.map(convert.codeAction)),
            }, { providedCodeActionKinds: [vscode.CodeActionKind.QuickFix] }),
            languages.registerInlayHintsProvider(LANGUAGE, {
                onDidChangeInlayHints: this.hintsChanged.event,
                provideInlayHints: (document, range, token) => this.ask('inlayHint',
                    { ...this.textDocument(document), range: convert.fromRange(range) }, token,
                    (found) => found.map(convert.inlayHint)),
            }));
    }

    dispose() {
        this.disposables.forEach((d) => d.dispose());
        this.disposables = [];
    }

    async stop() {
        this.closing = true;
        await this.connection.close();
        this.dispose();
    }
}

async function start() {
    session = new Session();
    await session.start().catch(() => {}); // `ended` says why
}

async function activate(context) {
    restarts = 0;
    context.subscriptions.push(vscode.commands.registerCommand('tessera.restart', async () => {
        restarts = 0;
        await deactivate();
        await start();
    }));
    await start();
}

async function deactivate() {
    if (session) {
        await session.stop();
        session = null;
    }
}

module.exports = { activate, deactivate };
