package network

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// A conn is one connection: two lanes, and the commands that await a reply.
type conn struct {
	client, server net.Conn
	up, down       *lane
	asked          [][]byte // as they were sent
	cut            bool
	lanes          int // the lanes that may still have something to send
	moves          int // the calls of Move before the connection was opened
}

func (c *conn) wake() {
	c.up.changed.Signal()
	c.down.changed.Signal()
}

// A lane is one direction of a connection.
type lane struct {
	conn     *conn
	up       bool
	from, to net.Conn
	alarm    *alarm
	changed  sync.Cond // signals changes to the sender
	queue    []chunk
	eof      bool // nothing more will come
}

// A chunk is the messages that one read completed, and the time at which they may be written.
type chunk struct {
	data    []byte
	lengths []int // of the messages in data; none if it is not RESP
	due     time.Time
}

// carryLocked copies between both sides until both have ended or the connection is cut.
func (n *Network) carryLocked(client, server net.Conn) {
	c := &conn{client: client, server: server, lanes: 2, moves: n.moves}
	direction := func(from, to net.Conn) *lane {
		l := &lane{conn: c, up: from == client, from: from, to: to, alarm: newAlarm(n.listener != nil)}
		l.changed.L = &n.mu
		return l
	}
	c.up, c.down = direction(client, server), direction(server, client)
	n.conns[c] = struct{}{}
	for _, l := range []*lane{c.up, c.down} {
		n.running.Go(func() { n.receive(l) })
		n.running.Go(func() { n.send(l) })
	}
}

func (n *Network) cutLocked(c *conn) {
	c.cut = true
	c.client.Close()
	c.server.Close()
	c.up.alarm.stop()
	c.down.alarm.stop()
	c.wake()
	delete(n.conns, c)
}

// receive reads one end for as long as it lives.
func (n *Network) receive(l *lane) {
	buffer := make([]byte, 64<<10)
	var s splitter
	for {
		size, err := l.from.Read(buffer)
		c := s.split(buffer[:size], err != nil)
		n.mu.Lock()
		if len(c.data) > 0 {
			c.due = time.Now().Add(n.oneWay)
			l.queue = append(l.queue, c)
		}
		l.eof = err != nil
		l.changed.Signal()
		n.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// send passes on the bytes of one end when they are due, as the rule decides.
func (n *Network) send(l *lane) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for len(l.queue) == 0 && !l.eof && !l.conn.cut {
			l.changed.Wait()
		}
		if l.conn.cut || len(l.queue) == 0 {
			break
		}
		if wait := time.Until(l.queue[0].due); wait > 0 {
			n.mu.Unlock()
			l.alarm.sleep(wait)
			n.mu.Lock()
			continue
		}
		data := n.passLocked(l)
		slice := n.slice
		n.mu.Unlock()
		for size := 0; len(data) > 0; data = data[size:] {
			if size = len(data); slice > 0 {
				size = min(size, slice)
			}
			if _, err := l.to.Write(data[:size]); err != nil {
				break // this end is closed; its own lane reads the same
			}
		}
		n.mu.Lock()
	}
	l.to.Close()
	l.alarm.stop()
	if l.conn.lanes--; l.conn.lanes == 0 {
		delete(n.conns, l.conn)
	}
}

// passLocked takes from the queue the bytes that may be written now: the first chunk as it
// came, or, where each message matters, the first message as the rule decides.
func (n *Network) passLocked(l *lane) []byte {
	c := &l.queue[0]
	if n.rule == nil && !n.recording && n.moves == 0 {
		l.queue = l.queue[1:]
		rest := c.data
		for _, length := range c.lengths {
			l.match(rest[:length])
			rest = rest[length:]
		}
		return c.data
	}

	raw, resp := c.data, len(c.lengths) > 0
	if resp {
		raw = c.data[:c.lengths[0]]
		c.data, c.lengths = c.data[c.lengths[0]:], c.lengths[1:]
	}
	if len(c.lengths) == 0 {
		l.queue = l.queue[1:]
	}

	f := l.frame(raw, resp)
	fate := Pass
	if n.rule != nil {
		fate = n.rule(f)
	}
	if fate == Pass && n.moves > 0 {
		fate = l.conn.moved(f, n.moves)
	}
	switch fate.kind {
	case drop:
		return nil
	case cut:
		n.cutLocked(l.conn)
		return nil
	case hold:
		for ticket := n.tickets; ticket == n.tickets && !l.conn.cut; {
			l.changed.Wait()
		}
		if l.conn.cut {
			return nil
		}
	case replace:
		raw = []byte(fate.text)
	}
	if l.up {
		if resp {
			l.match(raw)
		}
		if n.recording {
			f.Time = time.Now()
			n.sent = append(n.sent, f)
		}
	}
	return raw
}

// moved returns the fate of a frame once the address leads elsewhere: see [Network.Move].
func (c *conn) moved(f Frame, moves int) Fate {
	switch {
	case c.moves == moves && f.Stage == Reply && f.Is("INFO"):
		info := fmt.Sprintf("# Server\r\nrun_id:%040d\r\n", moves)
		return Replace(fmt.Sprintf("$%d\r\n%s\r\n", len(info), info))
	case c.moves < moves && f.Stage == Reply && f.Is("HELLO") && len(f.Args) == 1:
		return Replace("*2\r\n$4\r\nrole\r\n$5\r\nslave\r\n")
	case c.moves < moves && f.Stage == Request && (f.Is("EVALSHA") || f.Is("EVAL")):
		return Replace(asReplica)
	case c.moves < moves:
		return Deaf(f)
	}
	return Pass
}

// asReplica is a script that is refused as by a replica.
const asReplica = "*3\r\n$4\r\nEVAL\r\n$81\r\nreturn redis.error_reply(\"READONLY You can't write against a read only replica.\")\r\n$1\r\n0\r\n"

// match keeps a command for its reply. For a message to the client it returns the command
// that it answers, nil if none.
func (l *lane) match(raw []byte) []byte {
	c := l.conn
	switch {
	case l.up && !subscribes(raw):
		c.asked = append(c.asked, raw)
	case !l.up && raw[0] != '>' && len(c.asked) > 0: // otherwise a reply without a command, such as an error
		command := c.asked[0]
		c.asked = c.asked[1:]
		return command
	}
	return nil
}

// frame returns the frame of a message; that of a reply has the command that it answers.
func (l *lane) frame(raw []byte, resp bool) Frame {
	switch {
	case l.up && resp:
		return Frame{Stage: Request, Args: texts(raw)}
	case l.up:
		return Frame{Stage: Request}
	case !resp:
		return Frame{Stage: Reply}
	case raw[0] == '>':
		return Frame{Stage: Push, Args: texts(raw)}
	}
	return Frame{Stage: Reply, Args: texts(l.match(raw))}
}
