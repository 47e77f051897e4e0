package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A chunk is what one read gave, and when it may be written.
type chunk struct {
	data []byte
	due  time.Time
}

// A line is what is under way in one direction, without limit.
type line struct {
	arrived chan struct{} // holds a mark when there is something new

	mu     sync.Mutex // protects following
	chunks []chunk
	ended  bool // no more will come
}

func (l *line) put(c chunk) {
	l.mu.Lock()
	l.chunks = append(l.chunks, c)
	l.mu.Unlock()
	l.mark()
}

func (l *line) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.mark()
}

func (l *line) mark() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// take waits for chunks and returns all there are, or none after the end. It
// gives the former slice back for use.
func (l *line) take(former []chunk) []chunk {
	clear(former)
	for {
		l.mu.Lock()
		chunks, ended := l.chunks, l.ended
		if len(chunks) > 0 {
			l.chunks = former[:0]
		}
		l.mu.Unlock()
		if len(chunks) > 0 || ended {
			return chunks
		}
		<-l.arrived
	}
}

// carry moves bytes from one connection to another until the first ends, and
// then ends the second. If the second ends first, so does the first.
func (p *Proxy) carry(from, to net.Conn) {
	l := &line{arrived: make(chan struct{}, 1)}
	alarm := newAlarm()
	written := make(chan struct{})
	go func() {
		defer close(written)
		p.write(to, l, alarm)
		_ = from.Close()
		_ = to.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			due := time.Now().Add(time.Duration(p.oneWay.Load()))
			l.put(chunk{append([]byte(nil), buffer[:n]...), due})
		}
		if errors.Is(err, net.ErrClosed) {
			// It was cut, or the other side is gone: nobody waits for the rest.
			_ = to.Close()
			alarm.stop()
		}
		if err != nil {
			break
		}
	}
	l.end()
	<-written
	alarm.stop()
}

func (p *Proxy) write(to net.Conn, l *line, alarm *alarm) {
	var chunks []chunk
	for {
		chunks = l.take(chunks)
		if len(chunks) == 0 {
			return
		}
		for _, c := range chunks {
			if wait := time.Until(c.due); wait > 0 {
				alarm.sleep(wait)
			}
			<-p.passing()
			if _, err := to.Write(c.data); err != nil {
				return
			}
		}
	}
}
