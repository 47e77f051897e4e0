package idempotent

// Running returns the number of keys that the guard remembers as processed here.
func (g *Guard) Running() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.running)
}
