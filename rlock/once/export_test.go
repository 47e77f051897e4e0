package once

// Callers returns how many calls of this process wait for the key.
func (g *Group) Callers(key string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[key]; f != nil {
		return len(f.callers)
	}
	return 0
}
