package network_test

import (
	"bufio"
	"fmt"
	"net"
	"time"

	"github.com/go-rlock/rlock/internal/network"
)

func Example() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(conn, "hello from afar")
		_ = conn.Close()
	}()

	n, err := network.Listen(server.Addr().String())
	if err != nil {
		panic(err)
	}
	defer n.Close()
	n.SetRoundTrip(10 * time.Millisecond)

	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	line, _ := bufio.NewReader(conn).ReadString('\n')
	fmt.Print(line)
	// Output: hello from afar
}
