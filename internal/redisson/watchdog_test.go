package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
)

// shortLease is that of the watchdogs where a test waits for it.
const shortLease = 3 * time.Second

// keptLease is that of the watchdogs where a test waits for longer than it. Redisson
// renews at a third, and on a busy machine seconds late.
const keptLease = 2 * shortLease

// All at once, since all that they do is wait.
func TestTheWatchdogKeepsTheOtherOutUntilItsProcessIsKilled(t *testing.T) {
	withBoth(t, setting{lease: keptLease}, func(s *scene) {
		holder, reader := s.startJava(), s.startJava()
		fenced := s.of(redisson.Fenced)
		s.atOnce(map[string]func(s *scene){
			"a lock of Go":          keeping(s.golang(), s.thread("1")),
			"a lock of Java":        keeping(s.thread("2"), s.golang()),
			"a fenced lock of Go":   keeping(fenced.golang(), fenced.thread("3")),
			"a fenced lock of Java": keeping(fenced.thread("4"), fenced.golang()),
			"a reader in Go":        keeping(s.goBoth().read, s.javaBoth("5").write),
			"a reader in Java":      keeping(s.javaBoth("6").read, s.goBoth().write),
			"a writer in Go":        keeping(s.goBoth().write, s.javaBoth("7").read),
			"a writer in Java":      keeping(s.javaBoth("8").write, s.goBoth().read),

			"a holder in Java that is killed": func(s *scene) {
				lock := s.fresh()
				require.NoError(s.t, holder.Thread("one").Lock(lock, 0))
				s.freeAfterItsLease(lock, holder.Kill, s.golang())
			},
			"a holder in Go that is killed": func(s *scene) {
				lock := s.fresh()
				s.freeAfterItsLease(lock, s.startHolder(lock), s.thread("9"))
			},
			"a reader in Java that is killed": func(s *scene) {
				lock := s.fresh()
				require.NoError(s.t, reader.Thread("one").With(redisson.Read).Lock(lock, 0))
				s.readsOnAlone(lock, reader.Kill, s.goBoth())
			},
			"a reader in Go that is killed": func(s *scene) {
				lock := s.fresh()
				s.readsOnAlone(lock, s.of(redisson.Read).startHolder(lock), s.javaBoth("10"))
			},
		})
	})
}

func TestInAClusterTheWatchdogKeepsTheOtherOut(t *testing.T) {
	withNewestInACluster(t, setting{lease: keptLease}, func(s *scene) {
		s.atOnce(map[string]func(s *scene){
			"a lock of Go":   keeping(s.golang(), s.thread("1")),
			"a lock of Java": keeping(s.thread("2"), s.golang()),
		})
	})
}

// In keeping the first keeps the second out for longer than a lease that was renewed once
// lasts.
func keeping(first, second side) func(s *scene) {
	return func(s *scene) {
		lock := s.fresh()
		require.NoError(s.t, first.Lock(lock, 0))
		gives(s.t, false)(second.TryLock(lock, keptLease*3/2, 0))
		gives(s.t, true)(first.IsHeld(lock))
		require.NoError(s.t, first.Unlock(lock))
	}
}
