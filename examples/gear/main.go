// Gear is an update that gets lost, and the lock that keeps it:
//
//	go run ./examples/gear
//
// A gear is a group of at most 100 resources. When a resource is approved a
// message says so; whichever machine consumes the message saves the resource,
// and rewrites the list of the gear's resources that the web pages read from a
// cache. Now two resources of one gear are approved at the same moment, and two
// machines consume the two messages. Both read the list, both add their own
// resource to what they have read, and both write the list back. The second
// write undoes the first: a resource is saved, and on no page. And since the
// list is one short, a third message is accepted for which there is no room.
//
// A lock keeps them apart, until a machine stands still for longer than its lease:
// it then writes a list that is out of date. A guarded write is refused by Redis
// in this case, and the machine begins again.
//
// Look at the length of the list that each machine has read. The difference in code
// is between approveLocked and approveGuarded, with document.edit.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	gearSize = 100 // how many resources a gear has room for
	gear     = "example:gear:7"
	saved    = gear + ":saved" // the resources, as a database would have them
	lease    = 200 * time.Millisecond
)

var errFull = errors.New("the gear is full")

// A machine consumes messages. It has its own clients, as every process has.
type machine struct {
	name   string
	locks  *rlock.Client
	redis  rueidis.Client
	stands chan struct{} // closed when the machine stands still for longer than its lease, nil if it does not
}

func (m machine) lock() *rlock.Lock { return m.locks.NewLock(gear) }

// list is the key of the cached list, beside the lock.
func (m machine) list() string { return m.lock().Key("list") }

// approve saves the resource, and adds it to the cached list. Nothing in it keeps
// another machine from doing the same meanwhile.
func (m machine) approve(ctx context.Context, resource string) error {
	list, err := m.cached(ctx)
	if err != nil {
		return err
	}
	if list, err = m.add(ctx, list, resource); err != nil {
		return err
	}
	return m.cache(ctx, list)
}

// add saves the resource, and returns the list with it.
func (m machine) add(ctx context.Context, list, resource string) (string, error) {
	resources := strings.Fields(list)
	fmt.Printf("   %s reads a list of %d, to add %s\n", m.name, len(resources), resource)
	if len(resources) >= gearSize {
		return "", errFull
	}
	if err := m.redis.Do(ctx, m.redis.B().Sadd().Key(saved).Member(resource).Build()).Error(); err != nil {
		return "", err
	}
	time.Sleep(100 * time.Millisecond) // renders the pages
	if m.stands != nil {
		close(m.stands)
		time.Sleep(10 * lease)
	}
	return strings.Join(append(resources, resource), " "), nil
}

// approveLocked lets one message of the gear be consumed at a time, on whatever
// machine.
func (m machine) approveLocked(ctx context.Context, resource string) error {
	err := m.lock().Do(ctx, func(context.Context) error { return m.approve(ctx, resource) }, m.options()...)
	if errors.Is(err, rlock.ErrLost) {
		fmt.Printf("   %s is told that it had lost the lock, after its write\n", m.name)
		return nil
	}
	return err
}

// approveGuarded is approveLocked whose list is written if, and only if, the machine has the lock.
func (m machine) approveGuarded(ctx context.Context, resource string) error {
	err := document{m.lock(), m.redis, m.list()}.edit(ctx, func(list string) (string, error) {
		return m.add(ctx, list, resource)
	}, m.options()...)
	if errors.Is(err, rlock.ErrFenced) {
		fmt.Printf("   %s is refused, and begins again\n", m.name)
		m.stands = nil
		return m.approveGuarded(ctx, resource)
	}
	return err
}

// options are those of a machine that stands still: it does not renew its lease.
func (m machine) options() []rlock.AcquireOption {
	if m.stands == nil {
		return nil
	}
	return []rlock.AcquireOption{rlock.WithLease(lease)}
}

func (m machine) cached(ctx context.Context) (list string, err error) {
	return m.redis.Do(ctx, m.redis.B().Get().Key(m.list()).Build()).ToString()
}

func (m machine) cache(ctx context.Context, list string) error {
	return m.redis.Do(ctx, m.redis.B().Set().Key(m.list()).Value(list).Build()).Error()
}

func (m machine) saved(ctx context.Context) (int, error) {
	n, err := m.redis.Do(ctx, m.redis.B().Scard().Key(saved).Build()).AsInt64()
	return int(n), err
}

func main() { embedded.Main("gear", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	var machines [2]machine
	for i, name := range []string{"machine A", "machine B"} {
		locks, err := rlock.New(rlock.Config{Redis: options})
		if err != nil {
			return err
		}
		defer locks.Close()
		redis, err := rueidis.NewClient(options)
		if err != nil {
			return err
		}
		defer redis.Close()
		machines[i] = machine{name: name, locks: locks, redis: redis}
	}

	defer func() { machines[0].redis.Do(ctx, machines[0].redis.B().Del().Key(saved, machines[0].list()).Build()) }()

	for _, c := range []struct {
		title   string
		stands  bool // machine A stands still
		approve func(machine, context.Context, string) error
		intact  bool
	}{
		{"Without the lock", false, machine.approve, false},
		{"With the lock", false, machine.approveLocked, true},
		{"With the lock, and machine A stands still", true, machine.approveLocked, false},
		{"With guarded writes, and machine A stands still", true, machine.approveGuarded, true},
	} {
		for met := false; !met; { // again, if the machines were too slow to meet
			fmt.Println(c.title)
			intact, err := story(ctx, machines, c.stands, c.approve)
			switch {
			case err != nil:
				return err
			case c.intact && !intact:
				return errors.New("an update was lost in spite of the lock")
			}
			met = intact == c.intact
		}
	}
	return nil
}

// story begins with a gear that has room for two. The machines consume two messages at
// once, the second one when machine A stands still if it does, and then a third one.
// It reports whether all went well: each resource saved is on the list, and there are
// no more than the gear has room for.
func story(ctx context.Context, machines [2]machine, stands bool, approve func(machine, context.Context, string) error) (intact bool, err error) {
	if err := reset(ctx, machines[0], gearSize-2); err != nil {
		return false, err
	}
	var (
		group sync.WaitGroup
		errs  [2]error
	)
	a, b := machines[0], machines[1]
	if stands {
		a.stands = make(chan struct{})
	}
	group.Go(func() { errs[0] = approve(a, ctx, "resource-a") })
	if stands {
		select {
		case <-a.stands:
		case <-ctx.Done():
		}
	}
	group.Go(func() { errs[1] = approve(b, ctx, "resource-b") })
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return false, err
	}
	list, err := machines[0].cached(ctx)
	if err != nil {
		return false, err
	}
	first, err := machines[0].saved(ctx)
	if err != nil {
		return false, err
	}
	fmt.Printf("   => %d resources are saved, %d are on the list\n", first, len(strings.Fields(list)))

	err = approve(machines[0], ctx, "resource-c")
	switch {
	case err == nil:
		fmt.Println("   resource-c is accepted")
	case errors.Is(err, errFull):
		fmt.Println("   resource-c is refused: the gear is full")
	default:
		return false, err
	}
	total, err := machines[0].saved(ctx)
	fmt.Printf("   => %d resources are saved, in a gear with room for %d\n", total, gearSize)
	return len(strings.Fields(list)) == first && total <= gearSize, err
}

// reset makes a gear that has n resources.
func reset(ctx context.Context, m machine, n int) error {
	var resources []string
	for i := range n {
		resources = append(resources, "resource-"+strconv.Itoa(i))
	}
	for _, result := range m.redis.DoMulti(ctx,
		m.redis.B().Del().Key(saved).Build(),
		m.redis.B().Sadd().Key(saved).Member(resources...).Build(),
	) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return m.cache(ctx, strings.Join(resources, " "))
}
