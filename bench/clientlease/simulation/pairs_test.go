package simulation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A pair is one renewal by two commands, and another client that asks for the lock once, in
// whole ticks. The owner holds the lock from tick 0 on.
type pair struct {
	expires          int // when the owner's lease ends, if it is not renewed
	sent             int // when the owner sends both commands
	lengthens, looks int // when Redis executes PEXPIRE, and HGET
	asks, wants      int // when the other client asks, and for which lease
	first            bool
	greater          bool // whether PEXPIRE has GT
}

const pairLease = 3 // the lease of a renewal

// play returns whether two clients trust the lock at one time, and whether the other client's
// lease was shortened.
func (p pair) play() (two, shortened bool) {
	owner, end := "owner", p.expires
	trusts, taken := false, -1
	for now := range 20 {
		if end <= now {
			owner = ""
		}
		ask := func() {
			if p.asks == now && owner == "" {
				owner, end, taken = "other", now+p.wants, now
			}
		}
		if p.first {
			ask()
		}
		if p.lengthens == now && owner != "" && (!p.greater || now+pairLease > end) {
			end = now + pairLease
		}
		if p.looks == now && owner == "owner" {
			trusts = true
		}
		if !p.first {
			ask()
		}
		shortened = shortened || owner == "other" && end < taken+p.wants
	}
	return trusts && taken >= 0 && taken < p.sent+pairLease, shortened
}

// pairs plays all of them in which the commands are executed in order, or not.
func pairs(inOrder, greater bool) (two, shortened, played int) {
	for expires := 1; expires <= 5; expires++ {
		for sent := 0; sent < expires; sent++ { // an owner whose lease is over renews nothing
			for lengthens := sent; lengthens < 10; lengthens++ {
				for looks := sent; looks < 10; looks++ {
					if inOrder && looks < lengthens {
						continue
					}
					for asks := range 12 {
						for _, wants := range []int{1, 4, 8} {
							for _, first := range []bool{false, true} {
								t, s := pair{expires, sent, lengthens, looks, asks, wants, first, greater}.play()
								if played++; t {
									two++
								}
								if s {
									shortened++
								}
							}
						}
					}
				}
			}
		}
	}
	return two, shortened, played
}

func TestTwoPlainCommandsInOrderAreARenewal(t *testing.T) {
	two, shortened, played := pairs(true, true)
	assert.Greater(t, played, 40_000)
	assert.Zero(t, two, "two holders")
	assert.Zero(t, shortened, "a lease of another was shortened")
}

func TestTwoPlainCommandsOutOfOrderAreNone(t *testing.T) {
	two, shortened, _ := pairs(false, true)
	assert.Positive(t, two, "HGET before PEXPIRE, as when only the latter is redirected")
	assert.Zero(t, shortened)
}

func TestWithoutGTALeaseOfAnotherIsShortened(t *testing.T) {
	two, shortened, _ := pairs(true, false)
	assert.Zero(t, two)
	assert.Positive(t, shortened)
}
