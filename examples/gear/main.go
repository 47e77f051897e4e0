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
// Look at the length of the list that each machine has read, without the lock
// and with it. The difference in code is approveLocked.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
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
	list     = gear + ":list"  // the cached list of them
)

var errFull = errors.New("the gear is full")

// A machine consumes messages. It has its own clients, as every process has.
type machine struct {
	name  string
	locks *rlock.Client
	redis rueidis.Client
}

// approve saves the resource, and adds it to the cached list. Nothing in it keeps
// another machine from doing the same meanwhile.
func (m machine) approve(ctx context.Context, resource string) error {
	resources, err := m.cached(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("   %s reads a list of %d, to add %s\n", m.name, len(resources), resource)
	if len(resources) >= gearSize {
		return errFull
	}
	if err := m.redis.Do(ctx, m.redis.B().Sadd().Key(saved).Member(resource).Build()).Error(); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // renders the pages
	return m.cache(ctx, append(resources, resource))
}

// approveLocked lets one message of the gear be consumed at a time, on whatever
// machine.
func (m machine) approveLocked(ctx context.Context, resource string) error {
	return m.locks.NewLock(gear).Do(ctx, func(ctx context.Context) error {
		return m.approve(ctx, resource)
	})
}

func (m machine) cached(ctx context.Context) ([]string, error) {
	text, err := m.redis.Do(ctx, m.redis.B().Get().Key(list).Build()).ToString()
	return strings.Fields(text), err
}

func (m machine) saved(ctx context.Context) (int, error) {
	n, err := m.redis.Do(ctx, m.redis.B().Scard().Key(saved).Build()).AsInt64()
	return int(n), err
}

func (m machine) cache(ctx context.Context, resources []string) error {
	return m.redis.Do(ctx, m.redis.B().Set().Key(list).Value(strings.Join(resources, " ")).Build()).Error()
}

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("gear: ", err)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()

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
		machines[i] = machine{name, locks, redis}
	}

	defer func() { machines[0].redis.Do(ctx, machines[0].redis.B().Del().Key(saved, list).Build()) }()

	for intact := true; intact; { // again, if the machines were too slow to meet
		fmt.Println("Without the lock")
		if intact, err = story(ctx, machines, machine.approve); err != nil {
			return err
		}
	}
	fmt.Println("\nWith the lock")
	if intact, err := story(ctx, machines, machine.approveLocked); err != nil {
		return err
	} else if !intact {
		return errors.New("an update was lost in spite of the lock")
	}
	return nil
}

// story begins with a gear that has room for two, has the machines consume two
// messages at once and then a third one, and reports whether all went well: each
// resource saved is on the list, and there are no more than the gear has room for.
func story(ctx context.Context, machines [2]machine, approve func(machine, context.Context, string) error) (intact bool, err error) {
	if err := reset(ctx, machines[0], gearSize-2); err != nil {
		return false, err
	}
	var (
		group sync.WaitGroup
		errs  [2]error
	)
	for i, resource := range []string{"resource-a", "resource-b"} {
		group.Go(func() { errs[i] = approve(machines[i], ctx, resource) })
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return false, err
	}
	resources, err := machines[0].cached(ctx)
	if err != nil {
		return false, err
	}
	first, err := machines[0].saved(ctx)
	if err != nil {
		return false, err
	}
	fmt.Printf("   => %d resources are saved, %d are on the list\n", first, len(resources))

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
	return len(resources) == first && total <= gearSize, err
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
	return m.cache(ctx, resources)
}
