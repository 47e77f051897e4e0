package rlock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A named is a lock's name and the channel that Redisson gives it: Redisson adds braces
// unless the name has an opening one.
var named = []struct{ what, name, channel string }{
	{"a letter", "a", "redisson_lock__channel:{a}"},
	{"a tag", "{orders}:42", "redisson_lock__channel:{orders}:42"},
	{"a tag in the middle", "a{b}c", "redisson_lock__channel:a{b}c"},
	{"spaces, colons, quotes", ` a: "b" 'c'%d * `, `redisson_lock__channel:{ a: "b" 'c'%d * }`},
	{"line ends", "a\r\nb\n", "redisson_lock__channel:{a\r\nb\n}"},
	{"not ASCII", "Größe/注文🔒", "redisson_lock__channel:{Größe/注文🔒}"},
	{"NUL", "a\x00b", "redisson_lock__channel:{a\x00b}"},
	{"not UTF-8", "a\xff\xfe\xc3", "redisson_lock__channel:{a\xff\xfe\xc3}"},
	{"64 KiB", strings.Repeat("x", 64<<10), "redisson_lock__channel:{" + strings.Repeat("x", 64<<10) + "}"},
}

// untagged are names with a brace whose hash tag differs between key and channel: in a
// Cluster the two have different slots.
var untagged = []struct{ what, name, channel string }{
	{"an opening brace", "a{b", "redisson_lock__channel:a{b"},
	{"a closing brace", "a}b", "redisson_lock__channel:{a}b}"},
	{"an empty tag", "a{}b", "redisson_lock__channel:a{}b"},
	{"braces the wrong way round", "}a{", "redisson_lock__channel:}a{"},
}

// works asserts that the lock excludes others under exactly these bytes, and that its channel
// has that name.
func (s *site) works(t *testing.T, name, channel string) {
	here, there := s.client().NewLock(name), s.client().NewLock(name)
	assert.Equal(t, name, here.Name())
	heard := s.listen(s.family(), channel)
	require.NoError(t, here.Lock(s.ctx))
	assert.EqualValues(t, 1, s.number("HLEN", name))
	assert.False(t, s.isFree(there))
	ctx, queued := queueing(s.ctx)
	waiter := background(func() error {
		if err := there.Lock(ctx); err != nil {
			return err
		}
		return there.Unlock(ctx)
	})
	<-queued
	require.NoError(t, here.Unlock(s.ctx))
	require.NoError(t, s.await(waiter))
	messages := heard.heard() // one when the lock is free at last, and more if the listener is taken for a client of Redisson
	assert.NotEmpty(t, messages)
	assert.Empty(t, slices.DeleteFunc(messages, func(m string) bool { return m == "00" }))
	assert.Zero(t, s.number("EXISTS", name))
}

func TestANameMayHaveAnyBytes(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		for _, n := range named {
			t.Run(n.what, func(t *testing.T) { s.works(t, n.name, n.channel) })
		}
	})
}

// All keys and channels of a lock are in the slot of its name, whatever the name.
func TestALockOfEachKindMayHaveAnyName(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		here, there := s.process(), s.process()
		for _, n := range named {
			t.Run(n.what, func(t *testing.T) {
				require.NoError(t, here.lock(n.name).Lock(s.ctx))
				assert.False(t, s.isFree(there.lock(n.name)))
				require.NoError(t, here.lock(n.name).Unlock(s.ctx))
				assert.True(t, s.isFree(there.lock(n.name)))
			})
		}
	})
}

func TestALockOfEachKindRefusesANameWithABraceButNoTagInACluster(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		if s.Kind != redistest.KindCluster {
			return
		}
		for _, n := range untagged {
			assert.ErrorIs(t, s.process().lock(n.name).Lock(s.ctx), rlock.ErrInvalidName, n.what)
		}
	})
}

func TestANameWithABraceButNoTagIsRefusedInAClusterOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		for _, n := range untagged {
			t.Run(n.what, func(t *testing.T) {
				if s.Kind == redistest.KindCluster {
					lock := s.client().NewLock(n.name)
					assert.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrInvalidName)
					assert.Equal(t, n.name, lock.Name())
					return
				}
				s.works(t, n.name, n.channel)
			})
		}
	})
}

func TestANameIsNeitherEmptyNorLongerThan64KiB(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client()
		for _, name := range []string{"", strings.Repeat("x", 64<<10+1)} {
			assert.ErrorIs(t, client.NewLock(name).Lock(s.ctx), rlock.ErrInvalidName)
		}
	})
}
