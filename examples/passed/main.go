// Passed is an HTTP service that takes the lock of an order and leaves the work to a worker in another process: the hold
// moves there with the message.
//
//	go run ./examples/passed
//
// Two workers get the same message, and one of them resumes the lock. It is killed during its work, and the next request
// has the lock when its lease is over.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	lease = 2 * time.Second
	// message is the environment variable that has the message of a worker.
	message = "EXAMPLE_PASS"
)

func main() {
	log.SetFlags(0)
	task := run
	if os.Getenv(message) != "" {
		task = work
	}
	if err := task(); err != nil {
		log.Fatal("passed: ", err)
	}
}

func open(options rueidis.ClientOption) (*rlock.Client, error) {
	return rlock.New(rlock.Config{Redis: options, Lease: lease, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// accept takes the lock of an order, and answers with the message for a worker.
func accept(client *rlock.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		hold, err := client.NewLock("example:order:"+r.PathValue("order")).Acquire(r.Context(), rlock.WithWait(3*lease))
		if err != nil {
			http.Error(w, "the order is being processed", http.StatusConflict)
			return
		}
		pass, err := hold.Pass(r.Context(), 10*time.Second)
		if err != nil {
			http.Error(w, "the order is not processed", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, pass)
	}
}

// work is the process of a worker, which works until it is killed.
func work() error {
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()
	client, err := open(options)
	if err != nil {
		return err
	}
	defer client.Close()
	hold, err := client.Resume(context.Background(), os.Getenv(message))
	switch {
	case errors.Is(err, rlock.ErrNotPassed):
		fmt.Println("leaves: another worker has the lock")
		return nil
	case err != nil:
		return err
	}
	fmt.Println("works")
	<-hold.Context().Done() // the watchdog keeps the lock
	return context.Cause(hold.Context())
}

// A worker is a process, and what it has said.
type worker struct {
	process *exec.Cmd
	said    string
}

func start(ctx context.Context, address, pass string) (w worker, err error) {
	w.process = exec.CommandContext(ctx, os.Args[0])
	w.process.Env = append(os.Environ(), embedded.AddrEnv+"="+address, message+"="+pass)
	w.process.Stderr = os.Stderr
	out, err := w.process.StdoutPipe()
	if err == nil {
		err = w.process.Start()
	}
	if err != nil {
		return w, err
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	w.said = lines.Text()
	return w, lines.Err()
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()
	client, err := open(options)
	if err != nil {
		return err
	}
	defer client.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}", accept(client))
	server := httptest.NewServer(mux)
	defer server.Close()
	post := func() (string, error) {
		response, err := http.Post(server.URL+"/orders/42", "", nil)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return string(body), err
	}

	pass, err := post()
	if err != nil {
		return err
	}
	var workers [2]worker
	for i := range workers { // the queue delivers the message twice
		if workers[i], err = start(ctx, options.InitAddress[0], pass); err != nil {
			return err
		}
		fmt.Printf("worker %d %s\n", i+1, workers[i].said)
	}
	if workers[0].said != "works" || workers[1].said == "works" {
		return errors.New("not one worker has the lock")
	}
	time.Sleep(2 * lease) // it outlasts its lease
	if locked, err := client.NewLock("example:order:42").IsLocked(ctx); err != nil || !locked {
		return fmt.Errorf("the worker has lost the lock: %v, %w", locked, err)
	}
	if err := workers[0].process.Process.Kill(); err != nil {
		return err
	}
	_ = workers[0].process.Wait()
	if err := workers[1].process.Wait(); err != nil {
		return err
	}
	began := time.Now()
	if pass, err = post(); err != nil {
		return err
	}
	fmt.Printf("worker 1 is killed; the next request has the lock after %v\n", time.Since(began).Round(100*time.Millisecond))
	hold, err := client.Resume(ctx, pass)
	if err != nil {
		return err
	}
	fmt.Println("and the order is processed, by one worker at a time")
	return hold.Release(ctx)
}
