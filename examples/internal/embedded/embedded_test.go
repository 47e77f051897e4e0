package embedded_test

import (
	"context"
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/examples/internal/embedded"
)

func ping(options rueidis.ClientOption) error {
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(context.Background(), client.B().Ping().Build()).Error()
}

func TestAServerInMemoryAnswersUntilItIsStopped(t *testing.T) {
	t.Setenv(embedded.AddrEnv, "")
	options, stop, err := embedded.Redis()
	require.NoError(t, err)
	assert.NoError(t, ping(options))
	stop()
	assert.Error(t, ping(options))
}

func TestTheServerThatTheEnvironmentNamesIsUsed(t *testing.T) {
	t.Setenv(embedded.AddrEnv, "")
	running, stop, err := embedded.Redis()
	require.NoError(t, err)
	defer stop()

	host, _, err := net.SplitHostPort(running.InitAddress[0])
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", host, "never reachable from outside")

	t.Setenv(embedded.AddrEnv, running.InitAddress[0])
	options, stopNothing, err := embedded.Redis()
	require.NoError(t, err)
	assert.Equal(t, running.InitAddress, options.InitAddress)
	stopNothing()
	assert.NoError(t, ping(options), "a server that was not started must not be stopped")
}
