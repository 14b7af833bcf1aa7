// SPDX-License-Identifier: Apache-2.0
// node extension_test.js TESSERA: runs the extension for Visual Studio Code against `tessera lsp`,
// with the parts of the editor's API that it uses as plain objects. Prints `N passed, N failed`.
'use strict';

const assert = require('assert');
const Module = require('module');
const path = require('path');

// ---- the editor ----

class Position {
    constructor(line, character) { Object.assign(this, { line, character }); }
}
class Range {
    constructor(start, end) { Object.assign(this, { start, end }); }
}
const record = (...names) => class {
    constructor(...values) { names.forEach((name, i) => { this[name] = values[i]; }); }
};
class Emitter {
    constructor() {
        this.listeners = [];
        this.event = (listener) => {
            this.listeners.push(listener);
            return { dispose: () => { this.listeners = this.listeners.filter((l) => l !== listener); } };
        };
    }

    fire(value) { this.listeners.forEach((listener) => listener(value)); }

    dispose() { this.listeners = []; }
}
class WorkspaceEdit {
    constructor() { this.edits = new Map(); }

    set(uri, edits) { this.edits.set(uri.toString(), edits); }
}

const configuration = { path: process.argv[2], target: '', sizes: '', sets: '' };
const providers = {};
const collections = [];
const events = { open: new Emitter(), change: new Emitter(), close: new Emitter(), settings: new Emitter() };
const commands = {};
const errors = [];
const register = (name) => (language, provider) => {
    providers[name] = provider;
    return { dispose: () => { delete providers[name]; } };
};
const vscode = {
    Position, Range, WorkspaceEdit,
    EventEmitter: Emitter,
    Uri: { parse: (text) => ({ toString: () => text }) },
    Location: record('uri', 'range'),
    MarkdownString: record('value'),
    TextEdit: record('range', 'newText'),
    Diagnostic: record('range', 'message', 'severity'),
    DiagnosticRelatedInformation: record('location', 'message'),
    CompletionItem: record('label', 'kind'),
    SignatureHelp: record(),
    SignatureInformation: record('label', 'documentation'),
    ParameterInformation: record('label'),
    DocumentSymbol: record('name', 'detail', 'kind', 'range', 'selectionRange'),
    DocumentHighlight: record('range'),
    InlayHint: record('position', 'label', 'kind'),
    Hover: record('contents', 'range'),
    CodeAction: record('title', 'kind'),
    CodeActionKind: { QuickFix: 'quickfix' },
    window: { showErrorMessage: (text) => errors.push(text) },
    commands: {
        registerCommand: (name, run) => { commands[name] = run; return { dispose() {} }; },
    },
    workspace: {
        textDocuments: [],
        getConfiguration: () => ({ get: (key) => configuration[key] }),
        onDidOpenTextDocument: events.open.event,
        onDidChangeTextDocument: events.change.event,
        onDidCloseTextDocument: events.close.event,
        onDidChangeConfiguration: events.settings.event,
    },
    languages: {
        createDiagnosticCollection: () => {
            const found = new Map();
            const collection = {
                found,
                told: new Emitter(),
                set: (uri, list) => { found.set(uri.toString(), list); collection.told.fire(list); },
                dispose: () => found.clear(),
            };
            collections.push(collection);
            return collection;
        },
        registerHoverProvider: register('hover'),
        registerDefinitionProvider: register('definition'),
        registerReferenceProvider: register('references'),
        registerDocumentHighlightProvider: register('highlights'),
        registerRenameProvider: register('rename'),
        registerCompletionItemProvider: register('completion'),
        registerSignatureHelpProvider: register('signature'),
        registerDocumentSymbolProvider: register('symbols'),
        registerDocumentFormattingEditProvider: register('formatting'),
        registerCodeActionsProvider: register('actions'),
        registerInlayHintsProvider: register('hints'),
    },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));
const extension = require(path.join(__dirname, '../../editors/vscode/extension.js'));

// ---- a text ----

const TEXT = `kernel softmax(x: T[M, N]) -> T[M, N] where T: float {
    let e = expp(x - max(x, axis=1))
    return e / sum(e, axis=1)
}
`;
const document = {
    uri: vscode.Uri.parse('file:///folder/a.tile'),
    languageId: 'tile',
    version: 1,
    text: TEXT,
    getText: () => document.text,
};
const token = { onCancellationRequested: () => {} };
const all = new Range(new Position(0, 0), new Position(99, 0));

/// The next diagnostics that the server tells of the text.
function told() {
    return new Promise((resolve) => {
        const collection = collections[collections.length - 1];
        const listener = collection.told.event((list) => { listener.dispose(); resolve(list); });
    });
}

async function change(line, first, last, text) {
    document.version++;
    const diagnostics = told();
    events.change.fire({
        document,
        contentChanges: [{ range: new Range(new Position(line, first), new Position(line, last)), text }],
    });
    return diagnostics;
}

const tests = {
    async opens_and_tells_errors() {
        const diagnostics = told();
        events.open.fire({ ...document, languageId: 'c', uri: vscode.Uri.parse('file:///a.c') });
        events.open.fire(document);
        const [error, ...more] = await diagnostics;
        assert.strictEqual(more.length, 0);
        assert.strictEqual(error.code, 'E0302');
        assert.strictEqual(error.severity, 0);
        assert.deepStrictEqual([error.range.start.line, error.range.start.character], [1, 12]);
    },
    async offers_a_correction() {
        const [action] = await providers.actions.provideCodeActions(document, all, {}, token);
        assert.strictEqual(action.title, 'did you mean `exp`?');
        const [edit] = action.edit.edits.get('file:///folder/a.tile');
        assert.strictEqual(edit.newText, 'exp');
        assert.deepStrictEqual(await change(1, 12, 16, 'exp'), []);
    },
    async hovers() {
        const hover = await providers.hover.provideHover(document, new Position(1, 8), token);
        assert.ok(hover.contents.value.includes('let e: f32[M, N]'), hover.contents.value);
        assert.strictEqual(hover.range.end.character, 9);
        assert.strictEqual(
            await providers.hover.provideHover(document, new Position(3, 1), token), undefined);
    },
    async hints() {
        const hints = await providers.hints.provideInlayHints(document, all, token);
        assert.deepStrictEqual(hints.map((h) => [h.label, h.kind]), [[': f32[M, N]', 1]]);
    },
    async hints_of_schedules_come_later() {
        const refreshed = new Promise((resolve) => providers.hints.onDidChangeInlayHints(resolve));
        Object.assign(configuration, { target: 'sm_90a', sizes: 'M=64,N=128' });
        events.settings.fire({ affectsConfiguration: () => true });
        await refreshed;
        const hints = await providers.hints.provideInlayHints(document, all, token);
        assert.ok(hints[0].label.startsWith('sm_90a: tile '), hints[0].label);
        assert.ok(hints[0].tooltip.value.includes('schedule softmax on sm_90a'));
    },
    async completes() {
        const items = await providers.completion.provideCompletionItems(
            document, new Position(1, 13), token);
        const exp = items.find((i) => i.label === 'exp');
        assert.strictEqual(exp.kind, 2); // a function
        assert.ok(exp.documentation.value.length > 0);
        assert.ok(items.some((i) => i.label === 'x'));
    },
    async helps_with_signatures() {
        const help = await providers.signature.provideSignatureHelp(
            document, new Position(1, 28), token);
        assert.strictEqual(help.signatures[help.activeSignature].label, 'max(x, axis)');
        assert.strictEqual(help.activeParameter, 1);
    },
    async finds_definitions_and_uses() {
        const at = new Position(2, 11);
        const found = await providers.definition.provideDefinition(document, at, token);
        assert.deepStrictEqual([found.range.start.line, found.range.start.character], [1, 8]);
        const uses = await providers.references.provideReferences(document, at, {}, token);
        assert.strictEqual(uses.length, 3);
        const marks = await providers.highlights.provideDocumentHighlights(document, at, token);
        assert.strictEqual(marks.length, 3);
    },
    async renames() {
        const at = new Position(0, 20);
        const ready = await providers.rename.prepareRename(document, at, token);
        assert.strictEqual(ready.placeholder, 'M');
        const edit = await providers.rename.provideRenameEdits(document, at, 'Rows', token);
        assert.strictEqual(edit.edits.get('file:///folder/a.tile').length, 2);
        await assert.rejects(
            providers.rename.provideRenameEdits(document, at, 'kernel', token),
            /a word of the language/);
    },
    async outlines_and_formats() {
        const [kernel] = await providers.symbols.provideDocumentSymbols(document, token);
        assert.strictEqual(kernel.name, 'softmax');
        assert.strictEqual(kernel.kind, 11); // a function
        assert.strictEqual(kernel.children[0].name, 'e');
        await change(1, 9, 10, '   ');
        const [edit] = await providers.formatting.provideDocumentFormattingEdits(document, {}, token);
        assert.strictEqual(edit.range.start.line, 1);
        await change(1, 9, 12, ' ');
    },
    async restarts_by_command() {
        vscode.workspace.textDocuments = [{ ...document, getText: () => 'kernel f(' }];
        await commands['tessera.restart']();
        const diagnostics = await told();
        assert.strictEqual(diagnostics[0].code, 'E0201');
    },
    async survives_a_program_that_is_missing() {
        await extension.deactivate();
        configuration.path = '/nowhere/tessera';
        await extension.activate({ subscriptions: [] });
        for (let i = 0; i < 100 && errors.length === 0; i++) {
            await new Promise((resolve) => { setTimeout(resolve, 20); });
        }
        assert.ok(/tessera.path/.test(errors[0]), errors[0]);
        assert.deepStrictEqual(Object.keys(providers), []);
    },
};

async function main() {
    let failed = 0;
    await extension.activate({ subscriptions: [] });
    for (const [name, test] of Object.entries(tests)) {
        try {
            await test();
        } catch (error) {
            failed++;
            console.log(`${name}: ${error.stack}`);
        }
    }
    await extension.deactivate();
    console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
    process.exit(failed ? 1 : 0);
}

main();
