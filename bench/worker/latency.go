package worker

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longest = 2 * time.Minute
	digits  = 3
)

// A Latency is a distribution of durations, as it travels: percentiles for
// people and the whole histogram (HDR, compressed, base64 in JSON) to merge.
type Latency struct {
	Count                                 int64
	Mean, P25, P50, P90, P99, P999, Worst time.Duration
	Histogram                             []byte `json:",omitempty"`
}

// Merge returns the distribution of all values of both.
func (l Latency) Merge(other Latency) (Latency, error) {
	if other.Count == 0 {
		return l, nil
	}
	if l.Count == 0 {
		return other, nil
	}
	a, err := hdrhistogram.Decode(l.Histogram)
	if err != nil {
		return l, err
	}
	b, err := hdrhistogram.Decode(other.Histogram)
	if err != nil {
		return l, err
	}
	a.Merge(b)
	return summarize(a), nil
}

func summarize(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic("worker: a histogram cannot be encoded: " + err.Error()) // it is written to memory
	}
	return Latency{
		Count: h.TotalCount(), Mean: time.Duration(h.Mean()),
		P25: at(25), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Worst: time.Duration(h.Max()),
		Histogram: encoded,
	}
}

// A histogram is shared by the goroutines of a worker.
type histogram struct {
	mu sync.Mutex // guards the fields below
	h  *hdrhistogram.Histogram
}

func newHistogram() *histogram {
	return &histogram{h: hdrhistogram.New(1, int64(longest), digits)}
}

func (h *histogram) latency() Latency {
	h.mu.Lock()
	defer h.mu.Unlock()
	return summarize(h.h)
}

// A recorder buffers the values of one goroutine for a histogram, so that ten thousand
// goroutines need neither a histogram each nor a mutex for each value.
type recorder struct {
	into   *histogram
	values []int64
}

func (h *histogram) recorder() *recorder { return &recorder{into: h, values: make([]int64, 0, 64)} }

func (r *recorder) record(d time.Duration) {
	if len(r.values) == cap(r.values) {
		r.flush()
	}
	r.values = append(r.values, min(max(int64(d), 1), int64(longest)))
}

func (r *recorder) flush() {
	r.into.mu.Lock()
	defer r.into.mu.Unlock()
	for _, v := range r.values {
		_ = r.into.h.RecordValue(v) // record keeps it within the bounds
	}
	r.values = r.values[:0]
}
