// Gocron has three schedulers of github.com/go-co-op/gocron with the same job, and with the Locker
// and the Elector of rlock/gocron: the job runs once per interval; then one of two schedulers
// leads, and the other one when that ends.
//
//	go run -C examples/gocron .
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	rlockgocron "github.com/go-rlock/rlock/rlock/gocron"
)

const (
	schedulers = 3
	interval   = 200 * time.Millisecond
	runs       = 4
)

func main() {
	log.SetFlags(0)
	options, stop, err := embedded.Redis()
	if err == nil {
		err = once(options)
	}
	if err == nil {
		err = elected(options)
	}
	if err != nil {
		log.Fatal("gocron: ", err)
	}
	stop()
}

// With once all schedulers call the job at the same times.
func once(options rueidis.ClientOption) error {
	name := fmt.Sprint("example:report:", time.Now().UnixNano())
	begin := time.Now().Add(time.Second) // gocron refuses a time that has passed
	var count atomic.Int64
	done := make(chan struct{})
	finish := sync.OnceFunc(func() { close(done) })
	job := func() {
		if count.Add(1) == runs {
			finish()
		}
	}
	for range schedulers {
		client, err := rlock.New(rlock.Config{Redis: options})
		if err != nil {
			return err
		}
		defer client.Close()
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(rlockgocron.NewLocker(client, interval*3/4)))
		if err != nil {
			return err
		}
		defer func() { _ = scheduler.Shutdown() }()
		_, err = scheduler.NewJob(gocron.DurationJob(interval), gocron.NewTask(job), gocron.WithName(name),
			gocron.WithStartAt(gocron.WithStartDateTime(begin)))
		if err != nil {
			return err
		}
		scheduler.Start()
	}
	<-done
	if took := time.Since(begin); took < (runs-1)*interval*3/4 {
		return fmt.Errorf("%d schedulers ran the job %d times in %v", schedulers, runs, took)
	}
	fmt.Printf("%d schedulers, and the job ran once per interval\n", schedulers)
	return nil
}

// elected runs two processes that stand for election, and ends the first one.
func elected(options rueidis.ClientOption) error {
	name := fmt.Sprint("example:leader:", time.Now().UnixNano())
	var leads []func()
	names := []string{"the first", "the second"}
	electors := make([]*rlockgocron.Elector, len(names))
	for i := range electors {
		client, err := rlock.New(rlock.Config{Redis: options})
		if err != nil {
			return err
		}
		defer client.Close()
		electors[i] = rlockgocron.NewElector(client, name, elect.WithText(names[i]))
		ctx, cancel := context.WithCancel(context.Background())
		var standing sync.WaitGroup
		standing.Go(func() { _ = electors[i].Run(ctx) })
		leads = append(leads, func() { cancel(); standing.Wait() })
		if i == 0 {
			await(electors[i])
		}
	}
	fmt.Println("the first leads:", electors[0].IsLeader(context.Background()) == nil, "- the second:", electors[1].IsLeader(context.Background()) == nil)
	leads[0]()
	await(electors[1])
	for leader := ""; leader != names[1]; { // the text follows the grant
		var err error
		if leader, err = electors[0].Leader(context.Background()); err != nil {
			return err
		}
	}
	fmt.Println("the first has ended, and reads that", names[1], "leads")
	leads[1]()
	return nil
}

// await returns when the elector leads.
func await(e *rlockgocron.Elector) {
	for e.IsLeader(context.Background()) != nil {
		time.Sleep(time.Millisecond)
	}
}
