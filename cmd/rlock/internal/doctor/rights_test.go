package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/docs"
)

func TestEachDocumentedCommandIsTriedOrTestedElsewhere(t *testing.T) {
	elsewhere := []string{"+publish", "+subscribe", "+spublish", "+ssubscribe", "+cluster|slots", "+cluster|shards", "+lpush"}
	for _, n := range needs("Cluster") {
		right := map[string]bool{}
		for _, t := range n.tries("orders:42") {
			right[t.right] = true
		}
		for _, line := range n.lines {
			rules := docs.Rights(line)
			assert.NotEmpty(t, rules, line)
			for _, rule := range rules {
				if rule[0] == '+' && !right[rule] {
					assert.Contains(t, elsewhere, rule, line)
				}
			}
		}
	}
}

func TestTheKeysAreThoseThatTheLinesPermit(t *testing.T) {
	for name, foreign := range map[string]string{"orders:42": "rlock_foreign:{orders:42}", "{shop}:42": "rlock_foreign:{shop}:42"} {
		var keys []string
		for _, t := range needs("Cluster")[0].tries(name) {
			if t.keyed {
				keys = append(keys, t.words[1])
			}
		}
		assert.Contains(t, keys, foreign)
	}
}
