package once

// Callers returns how many calls of this process wait for the key.
func (g *Group) Callers(key string) int {
	g.mu.Lock()
	f := g.flights[key]
	g.mu.Unlock()
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callers.Len()
}
