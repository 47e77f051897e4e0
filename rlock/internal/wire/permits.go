package wire

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// A Permit is what one owner holds.
type Permit struct {
	Owner string
	Count int
	Left  time.Duration
}

// PermitsOf reads the members of a semaphore's key, with their scores, and the server's time.
// Owners whose leases are over have no permit, and neither has the member that counts (scripts/permits.lua).
func PermitsOf(members, clock rueidis.RedisResult) (held []Permit, err error) {
	ends, err := members.AsZScores()
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	parts, err := clock.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("TIME was answered with %d values, not 2", len(parts))
	}
	if err != nil {
		return nil, err
	}
	now := time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond // since 1970
	for _, end := range ends {
		if left := Milliseconds(int64(end.Score)) - now; left > 0 {
			owner, more := CutMore(end.Member)
			held = append(held, Permit{owner, 1 + int(more), left})
		}
	}
	return held, nil
}
