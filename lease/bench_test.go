package lease_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/lease"
)

// A kept is a minimal renewable.
type kept struct {
	entry lease.Entry
}

func (r *kept) Entry() *lease.Entry { return &r.entry }
func (r *kept) Group() uint32       { return 0 }
func (r *kept) Due(time.Time) bool  { return true }

// BenchmarkStartStopWith100kPending measures the share of the watchdog in an uncontended lock and
// unlock.
func BenchmarkStartStopWith100kPending(b *testing.B) {
	k := lease.NewKeeper(lease.Config{Send: none})
	b.Cleanup(k.Close)
	now := time.Now().Add(time.Hour)
	all := make([]kept, 100_000)
	for i := range all {
		k.Schedule(&all[i], now.Add(time.Duration(i)*100*time.Microsecond)) // over ten seconds
	}
	r := new(kept)
	at := time.Now().Add(10 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		k.Schedule(r, at)
		k.Stop(r)
	}
}
