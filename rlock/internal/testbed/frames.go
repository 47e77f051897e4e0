package testbed

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Mirrors and Acquires return those that reached the server so far.
func (p *Client) Mirrors() []network.Frame  { return scriptsOf(p.Net, "mirrored") }
func (p *Client) Acquires() []network.Frame { return scriptsOf(p.Net, "acquired") }

func scriptsOf(n *network.Network, kind string) []network.Frame {
	return slices.DeleteFunc(n.Sent(""), func(f network.Frame) bool { return !IsScript(f, kind) })
}

// IsScript reports whether the frame calls the acquire, mirror or release script of any kind
// of lock.
func IsScript(f network.Frame, kind string) bool {
	if !f.Is("EVALSHA") && !f.Is("EVAL") || len(f.Args) < 2 {
		return false
	}
	file := scriptOf(f)
	if file == "step" {
		leave, _ := membersOf(f)
		return kind == "released" && leave > 0 || kind == "acquired" && leave == 0
	}
	return file != "" && strings.HasSuffix(file, map[string]string{
		"acquired": "acquire", "mirrored": "mirror", "released": "release",
	}[kind])
}

// scriptOf returns the name of the script that the frame calls, "step" for a step of the
// queue.
func scriptOf(f network.Frame) string {
	sha := f.Args[1]
	if f.Is("EVAL") {
		sha = fmt.Sprintf("%x", sha1.Sum([]byte(sha)))
	}
	return scriptFiles[sha]
}

// membersOf returns how many tickets leave by a step, and how many join: ARGV[4] and
// ARGV[5] of queue.lua, if the step is more than a release.
func membersOf(f network.Frame) (leave, join int) {
	keys, _ := strconv.Atoi(f.Args[2])
	argv := f.Args[3+keys:]
	if len(argv) < 5 {
		return 1, 0
	}
	leave, _ = strconv.Atoi(argv[3])
	join, _ = strconv.Atoi(argv[4])
	return leave, join
}

// scriptFiles maps the hash of each script to its name.
var scriptFiles = map[string]string{
	wire.Acquire.Hash(): "acquire", wire.ReadWriteAcquire.Hash(): "rw_acquire", wire.SemaphoreAcquire.Hash(): "semaphore_acquire",
	wire.Mirror.Hash(): "mirror", wire.ReadWriteMirror.Hash(): "rw_mirror", wire.SemaphoreMirror.Hash(): "semaphore_mirror",
	wire.Resume.Hash(): "resume", wire.SemaphoreResume.Hash(): "semaphore_resume",
	wire.PlainStep.Hash(): "step", wire.ReadWriteStep.Hash(): "step",
}

// Scripts is a rule for the replies, or the requests, of one kind of script.
func Scripts(n int, fate network.Fate, stage network.Stage, kind string) network.Rule {
	return func(f network.Frame) network.Fate {
		if f.Stage != stage || !IsScript(f, kind) {
			return network.Pass
		}
		if n--; n != 0 {
			return network.Pass
		}
		return fate
	}
}

// EveryScript is a rule for the requests, or the replies, of all scripts.
func EveryScript(fate network.Fate, stage network.Stage) network.Rule {
	return network.All(fate, stage, "EVALSHA", "EVAL")
}

// Asked returns how often the client has sent that subcommand of CLIENT.
func (p *Client) Asked(subcommand string) (n int) {
	for _, f := range p.Net.Sent("CLIENT") {
		if f.Args[1] == subcommand {
			n++
		}
	}
	return n
}

// ScriptsOf returns how many scripts of one kind a network has carried.
func ScriptsOf(n *network.Network, kind string) int { return len(scriptsOf(n, kind)) }
