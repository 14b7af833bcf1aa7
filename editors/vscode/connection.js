// SPDX-License-Identifier: Apache-2.0
// Messages of the Language Server Protocol to and from a child process. Knows nothing of the
// editor.
'use strict';

const childProcess = require('child_process');

class Connection {
    /// onNotification(method, params); onRequest(method, params) gives the answer; onEnd(why).
    constructor(command, args, { onNotification, onRequest, onEnd }) {
        this.handlers = { onNotification, onRequest, onEnd };
        this.waiting = new Map(); // id: { resolve, reject }
        this.last = 0;
        this.bytes = Buffer.alloc(0);
        this.ended = false;
        this.child = childProcess.spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
        this.child.on('error', (error) => this.end(error.message));
        this.child.on('exit', (code) => this.end(`tessera lsp ended with status ${code}`));
        this.child.stdin.on('error', () => {}); // `exit` says what happened
        this.child.stdout.on('data', (data) => this.receive(data));
        this.child.stderr.on('data', () => {});
    }

    end(why) {
        if (!this.ended) {
            this.ended = true;
            for (const { reject } of this.waiting.values()) {
                reject(new Error(why));
            }
            this.waiting.clear();
            this.handlers.onEnd(why);
        }
    }

    send(message) {
        if (!this.ended) {
            const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }), 'utf8');
            this.child.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
            this.child.stdin.write(body);
        }
    }

    notify(method, params) {
        this.send({ method, params });
    }

    /// `token`, a vscode.CancellationToken, may be absent.
    request(method, params, token) {
        if (this.ended) {
            return Promise.reject(new Error('the language server has ended'));
        }
        const id = ++this.last;
        return new Promise((resolve, reject) => {
            this.waiting.set(id, { resolve, reject });
            this.send({ id, method, params });
            if (token) {
                token.onCancellationRequested(() => this.notify('$/cancelRequest', { id }));
            }
        });
    }

    receive(data) {
        this.bytes = Buffer.concat([this.bytes, data]);
        for (;;) {
            const end = this.bytes.indexOf('\r\n\r\n');
            const header = end < 0 ? null : this.bytes.toString('latin1', 0, end);
            const length = header === null ? null : /Content-Length: *(\d+)/i.exec(header);
            if (!length || this.bytes.length < end + 4 + Number(length[1])) {
                return;
            }
            const body = this.bytes.toString('utf8', end + 4, end + 4 + Number(length[1]));
            this.bytes = this.bytes.subarray(end + 4 + Number(length[1]));
            this.dispatch(JSON.parse(body));
        }
    }

    dispatch(message) {
        if (message.method !== undefined && message.id !== undefined) {
            const result = this.handlers.onRequest(message.method, message.params);
            this.send({ id: message.id, result: result === undefined ? null : result });
        } else if (message.method !== undefined) {
            this.handlers.onNotification(message.method, message.params);
        } else if (this.waiting.has(message.id)) {
            const { resolve, reject } = this.waiting.get(message.id);
            this.waiting.delete(message.id);
            if (message.error) {
                reject(new Error(message.error.message));
            } else {
                resolve(message.result);
            }
        }
    }

    /// Ends the session in order.
    async close() {
        if (!this.ended) {
            await this.request('shutdown', null).catch(() => {});
            this.notify('exit', null);
        }
    }
}

module.exports = { Connection };
