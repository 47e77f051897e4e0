//go:build !invariants

package driver

import (
	"context"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Without the build tag "invariants" there is no witness, and no rule is asserted: the calls of these methods compile to
// nothing. invariants.go has the rules, and what the methods do.

type witness struct{}

// CheckRules does nothing without the build tag "invariants".
func CheckRules(bool) (was bool) { return false }

func newWitness(*Client) *witness { return nil }

func (*witness) polled(*core.Command, *wire.Limit)           {}
func (*witness) carried(*core.Command)                       {}
func (*witness) landed(*core.Command)                        {}
func (*witness) unanswered() int                             { return 0 }
func (*witness) entersShard()                                {}
func (*witness) enters(string)                               {}
func (*witness) leaves()                                     {}
func (*witness) outside(string)                              {}
func (*witness) watched(ctx context.Context) context.Context { return ctx }

func (*shard) check()                                            {}
func (*shard) checkReported(*Name, core.OwnerID, *earlierLosses) {}
func (*shard) leaves()                                           {}
