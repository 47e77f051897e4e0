package rlock

import "github.com/go-rlock/rlock/rlock/internal/engine"

// An Owner is the holder of a lock, which may lock it again without waiting. By
// default it is the calling goroutine; [WithOwner] makes it travel with a
// context instead. In Redis it is the number behind the colon of the hash's
// field, where Redisson has the thread id. The zero Owner is nobody.
type Owner struct{ owner engine.Owner }

// NewOwner returns an owner that no other call returns in this process. It may
// be called concurrently.
func NewOwner() Owner { return Owner{engine.NewOwner()} }

// String returns the number as it stands in Redis.
func (o Owner) String() string { return o.owner.String() }

// MarshalText returns what String returns, so that JSON and structured logs show the
// owner. It never fails.
func (o Owner) MarshalText() ([]byte, error) { return o.owner.MarshalText() }
