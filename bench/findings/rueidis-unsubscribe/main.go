// Command rueidis-unsubscribe shows that a slow script of any client ends the process of a
// rueidis client that unsubscribes meanwhile. rueidis follows an UNSUBSCRIBE by a PING. A
// server that is busy answers both with BUSY; rueidis takes the first of these for the reply
// to the PING, and panics when it meets the second ("protocol bug, message handled out of
// order"), in a goroutine of its own, where no caller can recover it.
//
// The same happens where Dedicated gives a connection back, which unsubscribes as well, and
// with each other error that a server or a proxy answers to both commands, but for NOPERM of
// the PING.
//
// The server is slow for three seconds, and keeps a lua-time-limit of 100 ms: do not run it
// against one in use.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
)

const script = `local began = redis.call('time')[1]
	repeat until redis.call('time')[1] - began >= 3`

func main() {
	addr := "127.0.0.1:6379"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	if err := run(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("not seen: the process lives")
}

func run(addr string) error {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return err
	}
	defer client.Close()
	// Up to Redis 6 the setting is lua-time-limit, an alias since.
	if err := client.Do(ctx, client.B().ConfigSet().ParameterValue().ParameterValue("lua-time-limit", "100").Build()).Error(); err != nil {
		return err
	}
	defer client.Do(ctx, client.B().ConfigSet().ParameterValue().ParameterValue("lua-time-limit", "5000").Build())

	conn, release := client.Dedicate()
	defer release()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	if err := conn.Do(ctx, conn.B().Subscribe().Channel("news").Build()).Error(); err != nil {
		return err
	}

	slow := make(chan error, 1)
	go func() { slow <- client.Do(ctx, client.B().Arbitrary("EVAL", script, "0").Blocking()).Error() }()
	time.Sleep(time.Second) // the server says BUSY after 100 ms
	fmt.Println("UNSUBSCRIBE:", conn.Do(ctx, conn.B().Unsubscribe().Channel("news").Build()).Error())
	if err := <-slow; err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return nil
}
