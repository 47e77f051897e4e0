package pubsub

// Links returns how many connections the hub keeps, or tries to open.
func (h *Hub) Links() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.links)
}
