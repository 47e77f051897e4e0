package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// runID asks the server of a client for its run id. It returns "" if the server does not say.
func runID(ctx context.Context, client rueidis.Client) (string, error) {
	return readRunID(client.Do(ctx, client.B().Info().Section("server").Build()))
}

// readRunID returns the run id in a reply to INFO, or "".
func readRunID(reply rueidis.RedisResult) (string, error) {
	info, err := reply.ToString()
	if err != nil {
		return "", err
	}
	return infoField(info, "run_id"), nil
}

// infoField returns the value of a field in a reply to INFO, "" if there is none.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ServerProcess returns the run id of the server, which changes with a restart or a failover; "" if
// the server does not say. In a Cluster, which has many servers, it returns an error.
func (r *Redis) ServerProcess() (string, error) {
	if err := r.Ready(r.ctx, nil); err != nil {
		return "", err
	}
	if r.InCluster() {
		return "", fmt.Errorf("%w: a Cluster has no run id", ErrUnsupported)
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	id, err := runID(ctx, r.Client)
	return id, Explain(err)
}
