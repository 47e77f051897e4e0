package core

import "testing"

func TestTokens(t *testing.T) {
	some := tokens{reserved: 16, left: 1, current: 3}
	for _, c := range []struct {
		name    string
		tokens  tokens
		happens func(*tokens)
		then    tokens
	}{
		{"the first of the tokens is that of the hold", tokens{reserved: 1}, func(k *tokens) { k.take(20, 16) }, tokens{16, 15, 5}},
		{"the first token that there is", tokens{reserved: 1}, func(k *tokens) { k.take(1, 1) }, tokens{1, 0, 1}},
		{"a lock without tokens takes none", tokens{}, func(k *tokens) { k.take(20, 16) }, tokens{}},
		{"an answer without a token brings none", some, func(k *tokens) { k.take(0, 1) }, some},
		{"nor one without a number", some, func(k *tokens) { k.take(20, 0) }, some},
		{"a message brings tokens", tokens{reserved: 1}, func(k *tokens) { k.heard(Message{Token: 3, Tokens: 3}) }, tokens{3, 2, 1}},
		{"but not more than there can be", tokens{reserved: 1}, func(k *tokens) { k.heard(Message{Token: 3, Tokens: 4}) }, tokens{reserved: 1}},
		{"nor more than a tenure reserves", tokens{reserved: 1}, func(k *tokens) { k.take(maxTokens+9, maxTokens+1) }, tokens{reserved: 1}},
		{"the next hold has the next token", some, (*tokens).passOn, tokens{16, 0, 4}},
		{"of a lock without tokens none", tokens{}, (*tokens).passOn, tokens{}},
	} {
		if c.happens(&c.tokens); c.tokens != c.then {
			t.Errorf("%s: %+v, not %+v", c.name, c.tokens, c.then)
		}
	}
	for _, c := range []struct {
		name           string
		tokens         tokens
		missing, spent bool
		next           uint32
	}{
		{"a lock without tokens", tokens{}, false, false, 1},
		{"no grant was heard of", tokens{reserved: 4}, true, true, 1},
		{"one hold of one", tokens{1, 0, 7}, false, true, 16},
		{"one of sixteen", tokens{16, 15, 5}, false, false, 16},
		{"two of sixteen", tokens{16, 14, 6}, false, false, 32},
		{"all of sixteen", tokens{16, 0, 20}, false, true, 256},
		{"all of many", tokens{maxTokens, 0, maxTokens}, false, true, maxTokens},
	} {
		if k := &c.tokens; k.missing() != c.missing || k.spent() != c.spent || k.next() != c.next {
			t.Errorf("%s: missing %v, spent %v, next %d", c.name, k.missing(), k.spent(), k.next())
		}
	}
}
