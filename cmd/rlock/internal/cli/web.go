package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlockweb"
)

func (a *app) web() *cobra.Command {
	var listen string
	var unlock bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show the locks in a browser",
		Long: `web serves a page for browsers: the locks that are held, with their holders, leases and
waiters, and what happens to each while one looks. What changes is seen within a second.
Without a viewer it sends no commands.

The page has no login. By default only this machine reaches it; to show it to others put a
proxy with a login before it, under any path, or mount package rlockweb in a service.

EXIT CODES
  0 when it is ended by a signal; 1 if the address is in use; 2 and 69 as in rlock --help.`,
		Example: `  rlock web
  rlock web --unlock --listen 127.0.0.1:9000`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := a.config(cmd)
			if err != nil {
				return err
			}
			return a.with(cmd, func(client *rlock.Client) error {
				listener, err := net.Listen("tcp", listen)
				if err != nil {
					return fault{err, errFailed}
				}
				page := rlockweb.Handler(client, rlockweb.Options{
					Title:  strings.Join(config.Redis.InitAddress, ", "),
					Unlock: unlock,
					Logger: slog.New(slog.NewTextHandler(a.err, nil)),
					Findings: func(ctx context.Context) []rlockweb.Finding {
						return risks(ctx, config)
					},
				})
				if isLoopback(listener.Addr().String()) {
					page = onlyHere(page)
				}
				a.log("http://%s shows the locks", listener.Addr())
				return serve(cmd.Context(), listener, page)
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "the `address` of the page")
	cmd.Flags().BoolVar(&unlock, "unlock", false, "let viewers take locks away from their holders")
	return cmd
}

// serve serves the page until the command is ended.
func serve(ctx context.Context, listener net.Listener, page http.Handler) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fault{err, errFailed}
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fault{err, errFailed}
	}
	return nil
}

// onlyHere refuses requests for another host: a page of that host, whose name leads to this machine
// (DNS rebinding), could read the answers.
func onlyHere(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "this page is for this machine: use 127.0.0.1 or localhost, or --listen", http.StatusMisdirectedRequest)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// isLoopback reports whether the host of an address, with a port or without, is this machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// risks returns what doctor finds that is not green.
func risks(ctx context.Context, config rlock.Config) (risks []rlockweb.Finding) {
	prefix := config.Prefix
	config.Prefix = ""
	for _, f := range doctor.Examine(ctx, config, prefix) {
		if f.Level > doctor.Green {
			risks = append(risks, rlockweb.Finding{Check: f.Check, Level: f.Level.String(), Found: forShells.Replace(f.Found), Risk: f.Risk, Remedy: f.Remedy})
		}
	}
	return risks
}
