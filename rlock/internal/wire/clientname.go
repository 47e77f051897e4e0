package wire

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const (
	// namePrefix begins the client name of a connection.
	namePrefix = "rlock:"
	// longestPart is how many bytes of a program's or a host's name are shown.
	longestPart = 64
)

// clientName returns the client name of the connections of the client with that id,
// "rlock:<program>:<host>:<pid>:<id>".
func clientName(id string) string { return namePrefix + processName() + ":" + id }

// processName returns the part of the client name that all clients of a process share.
var processName = sync.OnceValue(func() string {
	program := "unknown"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return namePart(program) + ":" + namePart(host) + ":" + strconv.Itoa(os.Getpid())
})

// namePart replaces what Redis refuses in a client name (spaces, and all that is not
// printable ASCII), and the colons, since they separate the parts.
func namePart(text string) string {
	if text == "" {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' {
			return '_'
		}
		return r
	}, text[:min(len(text), longestPart)])
}

// parseClientName returns the process and the client's id of such a name. ok is false
// for any other name.
func parseClientName(name string) (p Process, id string, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 4 {
		return Process{}, "", false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || len(parts[3]) != ClientLen {
		return Process{}, "", false
	}
	return Process{Program: parts[0], Host: parts[1], PID: pid}, parts[3], true
}
