// SPDX-License-Identifier: Apache-2.0
// Values of the protocol as values of the editor, and back.
'use strict';

const vscode = require('vscode');

const position = (p) => new vscode.Position(p.line, p.character);
const range = (r) => new vscode.Range(position(r.start), position(r.end));
const location = (l) => new vscode.Location(vscode.Uri.parse(l.uri), range(l.range));
const fromPosition = (p) => ({ line: p.line, character: p.character });
const fromRange = (r) => ({ start: fromPosition(r.start), end: fromPosition(r.end) });
const markdown = (m) => (m ? new vscode.MarkdownString(m.value) : undefined);
const textEdit = (e) => new vscode.TextEdit(range(e.range), e.newText);

function diagnostic(d) {
    const made = new vscode.Diagnostic(range(d.range), d.message, d.severity - 1);
    made.source = d.source;
    made.code = d.code;
    made.relatedInformation = (d.relatedInformation || []).map(
        (r) => new vscode.DiagnosticRelatedInformation(location(r.location), r.message));
    return made;
}

function completionItem(i) {
    const made = new vscode.CompletionItem(i.label, i.kind - 1);
    made.detail = i.detail;
    made.documentation = markdown(i.documentation);
    return made;
}

function signatureHelp(help) {
    const made = new vscode.SignatureHelp();
    made.signatures = help.signatures.map((s) => {
        const signature = new vscode.SignatureInformation(s.label, markdown(s.documentation));
        signature.parameters = s.parameters.map((p) => new vscode.ParameterInformation(p.label));
        signature.activeParameter = s.activeParameter;
        return signature;
    });
    made.activeSignature = help.activeSignature;
    made.activeParameter = help.signatures[help.activeSignature].activeParameter;
    return made;
}

function symbol(s) {
    const made = new vscode.DocumentSymbol(s.name, s.detail, s.kind - 1, range(s.range),
        range(s.selectionRange));
    made.children = (s.children || []).map(symbol);
    return made;
}

function inlayHint(h) {
    const made = new vscode.InlayHint(position(h.position), h.label, h.kind);
    made.tooltip = markdown(h.tooltip);
    made.paddingLeft = h.paddingLeft;
    return made;
}

function workspaceEdit(edit) {
    const made = new vscode.WorkspaceEdit();
    for (const [uri, edits] of Object.entries(edit.changes)) {
        made.set(vscode.Uri.parse(uri), edits.map(textEdit));
    }
    return made;
}

function codeAction(a) {
    const made = new vscode.CodeAction(a.title, vscode.CodeActionKind.QuickFix);
    made.edit = workspaceEdit(a.edit);
    made.diagnostics = a.diagnostics.map(diagnostic);
    made.isPreferred = a.isPreferred;
    return made;
}

module.exports = {
    range, location, fromPosition, fromRange, markdown, textEdit, diagnostic, completionItem,
    signatureHelp, symbol, inlayHint, workspaceEdit, codeAction,
};
