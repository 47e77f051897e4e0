package client

import (
	"context"
	"time"
)

// A Lock is a lock of one key, as far as Redis alone is asked about it.
type Lock struct {
	Client *Client
	Name   *Name
	Shared bool // whether it is the read lock of its name
}

// NewLock returns the lock of that kind and name. It asks Redis nothing.
func NewLock(c *Client, id KindID, key string) Lock {
	return Lock{Client: c, Name: c.NewName(id, key)}
}

// ForReaders returns the read lock beside a write lock.
func (l *Lock) ForReaders() Lock { return Lock{Client: l.Client, Name: l.Name, Shared: true} }

// Title returns the name that the lock was made with.
func (l *Lock) Title() string { return l.Name.Key }

// Base returns the lock itself.
func (l *Lock) Base() *Lock { return l }

// Same reports whether both are the same lock.
func (l *Lock) Same(other *Lock) bool { return l.SameName(other) && l.Shared == other.Shared }

// SameName reports whether both are the same lock, or a reader's and a writer's.
func (l *Lock) SameName(other *Lock) bool {
	return l.Client == other.Client && l.Name.KindID == other.Name.KindID && l.Name.Key == other.Name.Key
}

// IsLocked asks Redis whether the lock is held.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) { return l.Name.kind().locked(ctx, l) }

// TTL asks Redis for how long the lock is held, if no lease is renewed: 0 if it is free, -1 without an end.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) { return l.Name.kind().ttl(ctx, l) }

// Holders asks Redis for the owners that an unlock by force releases: "<uuid>:<id>" each.
func (l *Lock) Holders(ctx context.Context) ([]string, error) { return l.Name.kind().holders(ctx, l) }
