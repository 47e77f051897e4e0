package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/network"
)

// Role is the environment variable that tells a process of the benchmark that it
// is not the benchmark: RoleWorker or RoleNetwork.
const Role = "RLOCK_BENCH_ROLE"

// The values of Role.
const (
	RoleWorker  = "worker"  // does one Job
	RoleNetwork = "network" // a network: reads "host:port roundtrip", writes its own address, ends with its input
)

// Main runs the process in its Role and exits. Without a Role it returns at once: call it
// first in main and in TestMain.
func Main() {
	var err error
	switch role := os.Getenv(Role); role {
	case "":
		return
	case RoleWorker:
		err = Run(os.Stdin, os.Stdout)
	case RoleNetwork:
		err = farAway(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("worker: %s is %q", Role, role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Run does one Job, as the package comment describes.
func Run(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("worker: no job: %w", err)
	}
	var job Job
	if err := json.Unmarshal(line, &job); err != nil {
		return fmt.Errorf("worker: job: %w", err)
	}
	w, err := open(job)
	if err != nil {
		return err
	}
	defer w.close()
	w.more = lines
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	var begin int64
	if _, err := fmt.Fscanln(lines, &begin); err != nil {
		return fmt.Errorf("worker: no time to begin: %w", err)
	}
	report, err := w.run(time.Unix(0, begin))
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}

func farAway(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var target, roundTrip string
	if _, err := fmt.Fscanln(lines, &target, &roundTrip); err != nil {
		return fmt.Errorf("worker: network: %w", err)
	}
	d, err := time.ParseDuration(strings.TrimSpace(roundTrip))
	if err != nil {
		return fmt.Errorf("worker: network: %w", err)
	}
	n, err := network.Listen(target)
	if err != nil {
		return err
	}
	defer n.Close()
	n.SetRoundTrip(d)
	fmt.Fprintln(out, n.Addr())
	_, _ = io.Copy(io.Discard, lines) // until the benchmark ends
	return nil
}
