package driver

// A call that waits for the answer to a mirror: Extend waits until Redis has confirmed a lease.

// awaitMirror returns a channel that is closed with the next answer to a mirror of the lock.
func (s *shard) awaitMirror(l *lock) <-chan struct{} {
	if s.mirrorWaits == nil {
		s.mirrorWaits = make(map[*lock]chan struct{})
	}
	if s.mirrorWaits[l] == nil {
		s.mirrorWaits[l] = make(chan struct{})
	}
	return s.mirrorWaits[l]
}

// endMirrorWait closes that channel.
func (s *shard) endMirrorWait(l *lock) {
	if answered := s.mirrorWaits[l]; answered != nil {
		close(answered)
		delete(s.mirrorWaits, l)
	}
}
