# SPDX-License-Identifier: Apache-2.0
"""LALR(1) tables of a tree-sitter grammar, as `tree-sitter generate` makes them: conflicts are
decided by precedences, kept where the grammar declares them, and reported otherwise. And a parser
by these tables that follows all actions of a kept conflict."""

import collections
import itertools
import re

# Each symbol has a precedence and an associativity: those of an item are its last symbol's.
Production = collections.namedtuple("Production", "name symbols precs assocs")
END = "end of text"


class Grammar:
    """Productions of a grammar in JSON. A symbol is ("rule", name), ("text", word),
    ("immediate", word), which no space comes before, or ("pattern", expression)."""

    def __init__(self, json):
        self.json = json
        self.by_name = collections.defaultdict(list)
        self.declared = [frozenset(names) for names in json["conflicts"]]
        self.extras = []
        for extra in json["extras"]:
            extra = json["rules"][extra["name"]] if extra["type"] == "SYMBOL" else extra
            self.extras.append(re.compile(extra["value"]))
        self.parent, self.count = {}, itertools.count()
        skipped = {e["name"] for e in json["extras"] if e["type"] == "SYMBOL"}
        for name, rule in json["rules"].items():
            if self.token_of(rule) is None and name not in skipped:
                self.add(name, name, rule)
        self.add("", "", {"type": "SYMBOL", "name": next(iter(json["rules"]))})

    @staticmethod
    def token_of(rule):
        """What a rule that is one token matches; None: it is none."""
        if rule["type"] == "IMMEDIATE_TOKEN":
            return ("immediate", rule["content"]["value"])
        while rule["type"] in ("TOKEN", "PREC") and "content" in rule:
            rule = rule["content"]
        return {"STRING": ("text", rule.get("value")),
                "PATTERN": ("pattern", rule.get("value"))}.get(rule["type"])

    def add(self, name, parent, rule):
        self.parent[name] = parent
        for steps in self.expand(rule, parent, 0, ""):
            self.add_production(name, steps)

    def add_production(self, name, steps):
        production = Production(name, *(tuple(s[i] for s in steps) for i in range(3)))
        if production not in self.by_name[name]:
            self.by_name[name].append(production)

    def expand(self, rule, parent, prec, assoc):
        """[[(symbol, precedence, associativity)]], one for each way to write the rule."""
        kind = rule["type"]
        if kind == "SYMBOL":
            token = self.token_of(self.json["rules"][rule["name"]])
            return [[(token or ("rule", rule["name"]), prec, assoc)]]
        if kind in ("STRING", "PATTERN", "TOKEN", "IMMEDIATE_TOKEN"):
            return [[(self.token_of(rule), prec, assoc)]]
        if kind == "BLANK":
            return [[]]
        if kind.startswith("PREC"):
            return self.expand(rule["content"], parent, rule["value"], kind[5:].lower())
        if kind in ("FIELD", "ALIAS"):
            return self.expand(rule["content"], parent, prec, assoc)
        if kind == "CHOICE":
            return [way for member in rule["members"]
                    for way in self.expand(member, parent, prec, assoc)]
        if kind == "SEQ":
            ways = [[]]
            for member in rule["members"]:
                more = self.expand(member, parent, prec, assoc)
                ways = [before + after for before in ways for after in more]
            return ways
        name = f"{parent} repeat {next(self.count)}"
        self.parent[name] = parent
        for steps in self.expand(rule["content"], parent, 0, ""):
            self.add_production(name, steps)
            self.add_production(name, [(("rule", name), 0, ""), *steps])
        again = [(("rule", name), prec, assoc)]
        return [again] if kind == "REPEAT1" else [[], again]


class Tables:
    def __init__(self, grammar):
        self.grammar = grammar
        self.build_states()
        self.build_lookaheads()
        self.decide()

    def closure(self, kernel):
        found, todo = set(kernel), list(kernel)
        while todo:
            production, dot = todo.pop()
            if dot < len(production.symbols) and production.symbols[dot][0] == "rule":
                for other in self.grammar.by_name[production.symbols[dot][1]]:
                    if (other, 0) not in found:
                        found.add((other, 0))
                        todo.append((other, 0))
        return found

    def build_states(self):
        start = frozenset((p, 0) for p in self.grammar.by_name[""])
        self.states, self.numbers, self.moves = [start], {start: 0}, []
        self.closures = []
        for state in self.states:  # grows
            items, after = self.closure(state), collections.defaultdict(set)
            self.closures.append(items)
            for production, dot in items:
                if dot < len(production.symbols):
                    after[production.symbols[dot]].add((production, dot + 1))
            moves = {}
            for symbol, kernel in sorted(after.items()):
                kernel = frozenset(kernel)
                if kernel not in self.numbers:
                    self.numbers[kernel] = len(self.states)
                    self.states.append(kernel)
                moves[symbol] = self.numbers[kernel]
            self.moves.append(moves)

    def build_lookaheads(self):
        """Of each rule at each state where it begins, what may follow it: the FOLLOW sets of the
        grammar whose symbols are the moves of the automaton (DeRemer and Pennello 1982)."""
        bodies = collections.defaultdict(list)
        ends = collections.defaultdict(list)  # (state, production): where it begins
        for state, items in enumerate(self.closures):
            for production, dot in items:
                if dot:
                    continue
                at, body = state, []
                for symbol in production.symbols:
                    body.append((at, symbol))
                    at = self.moves[at][symbol]
                bodies[state, ("rule", production.name)].append(body)
                ends[at, production].append((state, ("rule", production.name)))
        empty = {move for move, all_ in bodies.items() if any(not body for body in all_)}
        first = {move: set() for move in bodies}
        self.fixpoint(bodies, lambda move, body: self.grow_first(first, empty, move, body))
        follow = {move: set() for move in bodies}
        follow[0, ("rule", "")] = {END}
        self.fixpoint(bodies, lambda move, body: self.grow_follow(follow, first, empty, move, body))
        self.lookaheads = {key: set().union(*(follow[move] for move in moves))
                           for key, moves in ends.items()}

    @staticmethod
    def fixpoint(bodies, grow):
        while any([grow(move, body) for move, all_ in bodies.items() for body in all_]):
            pass

    @staticmethod
    def grow_first(first, empty, move, body):
        before = len(first[move])
        for part in body:
            first[move] |= first[part] if part[1][0] == "rule" else {part[1]}
            if part not in empty:
                break
        return len(first[move]) > before

    @staticmethod
    def grow_follow(follow, first, empty, move, body):
        after, grown = set(follow[move]), False
        for part in reversed(body):
            if part[1][0] != "rule":
                after = {part[1]}
                continue
            before = len(follow[part])
            follow[part] |= after
            grown = grown or len(follow[part]) > before
            after = first[part] | (after if part in empty else set())
        return grown

    def first_of(self, symbol):
        """The tokens with which a symbol begins."""
        if symbol not in self.firsts:
            self.firsts[symbol] = {symbol} if symbol[0] != "rule" else set()
            for production in self.grammar.by_name[symbol[1]] if symbol[0] == "rule" else []:
                self.firsts[symbol] |= self.first_of(production.symbols[0])
        return self.firsts[symbol]

    def decide(self):
        """actions[state][token]: ("shift", state) and ("reduce", production)."""
        self.actions, self.problems, self.used = [], [], set()
        self.firsts = {}
        for state, moves in enumerate(self.moves):
            actions = collections.defaultdict(list)
            for symbol, target in moves.items():
                if symbol[0] != "rule":
                    actions[symbol].append(("shift", target))
            for production, dot in sorted(self.closures[state]):
                if dot == len(production.symbols):
                    for token in self.lookaheads[state, production]:
                        actions[token].append(("reduce", production))
            self.actions.append({token: self.choose(state, token, found)
                                 for token, found in actions.items()})

    def choose(self, state, token, found):
        if len(found) < 2:
            return found
        reduces = [p for kind, p in found if kind == "reduce"]
        shifts = [(p, dot) for p, dot in self.closures[state]
                  if 0 < dot < len(p.symbols) and token in self.first_of(p.symbols[dot])]
        if len(reduces) == 1 and shifts:
            prec, assoc = reduces[0].precs[-1], reduces[0].assocs[-1]
            highest = max(p.precs[dot - 1] for p, dot in shifts)
            if prec != highest:
                return [a for a in found if (a[0] == "reduce") == (prec > highest)]
            if assoc:
                return [a for a in found if (a[0] == "reduce") == (assoc == "left")]
        names = frozenset(self.grammar.parent[p.name]
                          for p in [*reduces, *(p for p, _ in shifts)])
        if names in self.grammar.declared:
            self.used.add(names)
        else:
            self.problems.append(f"before {token[1] if token != END else END}: "
                                 f"{', '.join(sorted(names))}")
        return found


class Parser:
    def __init__(self, tables):
        self.tables = tables
        self.patterns = {}
        for actions in tables.actions:
            for token in actions:
                if token != END and token not in self.patterns:
                    self.patterns[token] = re.compile(
                        token[1] if token[0] == "pattern" else re.escape(token[1]))
        self.word = re.compile(tables.grammar.json["rules"][tables.grammar.json["word"]]["value"])

    def skip(self, text, at):
        moved = True
        while moved:
            moved = False
            for extra in self.tables.grammar.extras:
                match = extra.match(text, at)
                if match and match.end() > at:
                    at, moved = match.end(), True
        return at

    def token(self, text, at, stacks, apart):
        """The longest one that some stack may take; of equal ones a fixed text. `apart`: there is
        space before it."""
        rank = {"pattern": 0, "text": 1, "immediate": 2}
        best, end = None, at
        for token in sorted({t for state, _ in stacks for t in self.tables.actions[state]} - {END}):
            match = self.patterns[token].match(text, at)
            if not match or match.end() == at or (apart and token[0] == "immediate"):
                continue
            inside = token[0] == "text" and self.word.fullmatch(token[1]) and \
                self.word.match(text, at).end() > match.end()
            if not inside and (match.end(), rank[token[0]]) > (end, rank[best[0]] if best else 0):
                best, end = token, match.end()
        return best, end

    def reduce_all(self, stacks, token):
        """The stacks that shift the token, behind all reductions before it."""
        found, todo = [], list(stacks)
        while todo:
            stack = todo.pop()
            for kind, what in self.tables.actions[stack[0]].get(token, []):
                if kind == "shift":
                    found.append((what, stack))
                    continue
                below = stack
                for _ in what.symbols:
                    below = below[1]
                if what.name == "":
                    found.append(("accepted", None))
                else:
                    move = self.tables.moves[below[0]][("rule", what.name)]
                    todo.append((move, below))
        return found

    def parse(self, text):
        """The offset where the text cannot go on; None: it is in the language."""
        stacks, end = [(0, None)], 0
        while True:
            at = self.skip(text, end)
            apart = at > end
            token, end = self.token(text, at, stacks, apart) if at < len(text) else (END, at)
            stacks = self.reduce_all(stacks, token) if token else []
            if not stacks:
                return at
            if token == END:
                return None
