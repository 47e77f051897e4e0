package testbed

import (
	"github.com/go-rlock/rlock/rlock"
)

// A RWClient is the read-write lock of one client.
type RWClient struct {
	*Client
	Read  *rlock.Lock
	Write *rlock.Lock
}

func (w *World) NewRWClient(changes ...func(*rlock.Config)) RWClient {
	w.T.Helper()
	p := w.NewClient(changes...)
	l := p.NewReadWriteLock(Key)
	return RWClient{p, l.Read(), l.Write()}
}

const RWChannel = "redisson_rwlock:{orders:42}"
