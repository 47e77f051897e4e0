package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/rlock"
)

// Losses is how a worker's clients learn that Redis has forgotten their locks.
type Losses string

const (
	// ByDefault is the default of rlock: the client's own channel, a mirror of all locks over
	// each connection that comes back, and notices of Redis.
	ByDefault Losses = "default"
	// Untracked is the same without the notices: see Advanced.TrackedKeys.
	Untracked Losses = "untracked"
	// Renewals has nothing but the renewals: the client has no channel of its own, and shares
	// a rueidis client, whose connections it does not see.
	Renewals Losses = "renewals"
)

var allLosses = []Losses{ByDefault, Untracked, Renewals}

// LossesNames returns the names of all, comma-separated.
func LossesNames() string {
	names := make([]string, len(allLosses))
	for i, l := range allLosses {
		names[i] = string(l)
	}
	return strings.Join(names, ",")
}

// ParseLosses returns the value of that name.
func ParseLosses(name string) (Losses, error) {
	if l := Losses(name); slices.Contains(allLosses, l) {
		return l, nil
	}
	return "", fmt.Errorf("torture: no losses are told by %q: it is one of %s", name, LossesNames())
}

// connectTo returns a client of the server. The rueidis client that it shares is closed at the
// end of the worker.
func (w *worker) connectTo(server stage.Address) (*rlock.Client, error) {
	config := Config(server, w.Lease)
	if w.Losses == Untracked {
		config.Advanced.TrackedKeys = -1
	}
	if w.Losses != Renewals {
		return rlock.New(config)
	}
	shared, err := rueidis.NewClient(config.Redis)
	if err != nil {
		return nil, err
	}
	config.Redis, config.Client, config.Advanced.NoClientChannel = rueidis.ClientOption{}, shared, true
	client, err := rlock.New(config)
	if err != nil {
		shared.Close()
		return nil, err
	}
	w.shared = append(w.shared, shared)
	return client, nil
}
