package idempotent

import (
	"context"
	"net/http"
)

// Running returns the number of keys that the guard remembers as processed here.
func (g *Guard) Running() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.running)
}

// RunLeft does the work of a request that has left between the answer to its mark and its handler.
func (g *Guard) RunLeft(r *http.Request, next http.Handler) error {
	key, _ := parseKey(r.Header.Values("Idempotency-Key"))
	q, err := g.read(r, key)
	if err != nil {
		return err
	}
	t := &turn{gone: context.Background()}
	t.state.Store(left)
	_, _, err = g.group.Do(r.Context(), q.key, func(ctx context.Context) ([]byte, error) { return g.run(ctx, t, nil, nil, r, &q, next) })
	return err
}

// Outcomes returns the names of the rows of the table of outcomes.
func Outcomes() (names []string) {
	for i := range outcomes {
		names = append(names, outcomes[i].name)
	}
	return names
}
