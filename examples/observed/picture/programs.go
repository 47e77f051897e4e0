package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/examples/observed/internal/panels"
	"github.com/go-rlock/rlock/rlock/rlockotel/dashboards"
)

// scrape is how often Prometheus collects the metrics and looks at the rules.
const scrape = 2 * time.Second

// programs are those that work for the picture, with a folder for their files.
type programs struct {
	folder  string
	running []*exec.Cmd
}

// end ends the programs, and removes their files.
func (p *programs) end() {
	for _, cmd := range p.running {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_ = os.RemoveAll(p.folder)
}

func (p *programs) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	p.running = append(p.running, cmd)
	return nil
}

// redis starts a Redis, and returns its address when it can be connected to.
func (p *programs) redis(ctx context.Context) (addr string, err error) {
	if addr, err = freeAddr(); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(addr)
	if err := p.start(exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", p.folder)); err != nil {
		return "", err
	}
	return addr, await(ctx, func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// example builds and starts the example, and returns the address of its metrics.
func (p *programs) example(redis string) (addr string, err error) {
	program := filepath.Join(p.folder, "observed")
	build := exec.Command("go", "build", "-o", program, "github.com/go-rlock/rlock/examples/observed")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("go build: %w", err)
	}
	cmd := exec.Command(program, "-serve", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), embedded.AddrEnv+"="+redis)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := p.start(cmd); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "=> metrics at http://"); ok {
			go func() {
				for lines.Scan() { // so that it can go on
				}
			}()
			return strings.TrimSuffix(url, "/metrics"), nil
		}
	}
	return "", errors.New("the example serves no metrics")
}

// prometheus starts a Prometheus that collects the metrics and has the alert rules, and
// returns it when it is ready.
func (p *programs) prometheus(ctx context.Context, metrics string) (*panels.Prometheus, error) {
	config := fmt.Sprintf(`global: {scrape_interval: %[1]v, scrape_timeout: %[1]v, evaluation_interval: %[1]v}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: shop
    static_configs: [{targets: ["%[2]s"]}]
`, scrape, metrics)
	in := func(name string) string { return filepath.Join(p.folder, name) }
	if err := errors.Join(
		os.WriteFile(in("prometheus.yml"), []byte(config), 0o600),
		os.WriteFile(in("alerts.yaml"), dashboards.Alerts, 0o600),
	); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if err := p.start(exec.Command("prometheus", "--web.listen-address="+addr, "--log.level=error",
		"--config.file="+in("prometheus.yml"), "--storage.tsdb.path="+in("data"))); err != nil {
		return nil, err
	}
	url := "http://" + addr
	return &panels.Prometheus{URL: url, Scrape: scrape}, await(ctx, func() error {
		answer, err := http.Get(url + "/-/ready")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

// freeAddr returns an address of the loopback interface at which nothing listens.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// await waits until try succeeds, for half a minute.
func await(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil || until(ctx, time.Now().Add(100*time.Millisecond)) != nil {
			return err
		}
	}
}
