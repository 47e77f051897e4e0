package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// runID asks the server of a client for its run id, and returns "" if it does not say.
func runID(ctx context.Context, client rueidis.Client) (string, error) {
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", nil
}

// ServerProcess returns the run id of the server: another process of it, or another server after a failover, has
// another one. It is "" if the server does not say. A Cluster is many servers, and is refused.
func (r *Redis) ServerProcess() (string, error) {
	if r.InCluster() {
		return "", fmt.Errorf("%w: a Cluster has no run id", ErrUnsupported)
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	id, err := runID(ctx, r.Client)
	return id, Explain(err)
}
