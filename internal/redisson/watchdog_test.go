package redisson_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
)

// shortLease is that of the watchdogs where a test waits for it.
const shortLease = 3 * time.Second

// keptLease is that of the watchdogs where a test waits for longer than it. Redisson
// renews at a third, and on a busy machine seconds late.
const keptLease = 2 * shortLease

func TestTheWatchdogKeepsTheOtherOutForTwoLeases(t *testing.T) {
	withBoth(t, setting{lease: keptLease}, func(s *scene) {
		fenced := s.of(redisson.Fenced)
		s.allKeep(map[string][2]side{
			"a lock of Go":          {s.golang(), s.thread("1")},
			"a lock of Java":        {s.thread("2"), s.golang()},
			"a fenced lock of Go":   {fenced.golang(), fenced.thread("3")},
			"a fenced lock of Java": {fenced.thread("4"), fenced.golang()},
			"a reader in Go":        {s.goBoth().read, s.javaBoth("5").write},
			"a reader in Java":      {s.javaBoth("6").read, s.goBoth().write},
			"a writer in Go":        {s.goBoth().write, s.javaBoth("7").read},
			"a writer in Java":      {s.javaBoth("8").write, s.goBoth().read},
		})
	})
}

func TestInAClusterTheWatchdogKeepsTheOtherOut(t *testing.T) {
	withBothAtOnceInACluster(t, setting{lease: keptLease}, func(s *scene) {
		s.allKeep(map[string][2]side{
			"a lock of Go":   {s.golang(), s.thread("1")},
			"a lock of Java": {s.thread("2"), s.golang()},
		})
	})
}

// allKeep has the first of each two keep the second out, all at once, since all that
// they do is wait.
func (s *scene) allKeep(rows map[string][2]side) {
	var all sync.WaitGroup
	for title, sides := range rows {
		all.Go(func() { s.run(title, func(s *scene) { keeping(s, sides[0], sides[1]) }) })
	}
	all.Wait()
}

func keeping(s *scene, first, second side) {
	lock := s.fresh()
	require.NoError(s.t, first.Lock(lock, 0))
	ok, err := second.TryLock(lock, 2*keptLease, 0)
	require.NoError(s.t, err)
	assert.False(s.t, ok)
	held, err := first.IsHeld(lock)
	require.NoError(s.t, err)
	assert.True(s.t, held)
	require.NoError(s.t, first.Unlock(lock))
}
