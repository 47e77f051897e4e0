package guard

import (
	"os"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// Process is the command of a job.
type Process = process

// Watch is the part of Run in which the process p runs. It returns why the lock was lost.
func Watch(job Job, lease time.Duration, hold *rlock.Hold, p Process, signals chan os.Signal) error {
	r := &run{Job: job, lease: lease, signals: signals}
	r.watch(hold, p)
	return r.lost
}
