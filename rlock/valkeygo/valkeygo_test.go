package valkeygo_test

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/go-rlock/rlock/rlock/valkeygo"
)

var (
	converted = strings.Fields(`InitAddress SelectDB ShuffleInit ForceSingleClient Sentinel ClusterOption Standalone Username
		Password ClientName ClientSetInfo AuthCredentialsFn TLSConfig Dialer DialFn DialCtxFn ConnWriteTimeout DisableTCPNoDelay
		AlwaysRESP2`)
	refused = strings.Fields("ReplicaOnly SendToReplicas ReplicaSelector ReadNodeSelector")
	leftOut = strings.Fields(`NewCacheStoreFn OnInvalidations CacheSizeEachConn ClientTrackingOptions DisableCache RetryDelay
		DisableRetry RingScaleEachConn ReadBufferEachConn WriteBufferEachConn BlockingPoolCleanup BlockingPoolMinSize
		BlockingPoolSize BlockingPipeline PipelineMultiplex ConnLifetime MaxFlushDelay ClientNoTouch ClientNoEvict
		DisableAutoPipelining AlwaysPipelining EnableReplicaAZInfo AZFromInfo`)
)

// set gives a value to a field, and to each field of a struct but those that send commands to
// replicas.
func set(v reflect.Value) {
	switch v.Interface().(type) {
	case net.Dialer:
		v.Set(reflect.ValueOf(net.Dialer{Timeout: 7 * time.Second}))
		return
	case *tls.Config:
		v.Set(reflect.ValueOf(&tls.Config{ServerName: "server"}))
		return
	case valkey.StandaloneOption:
		v.Set(reflect.ValueOf(valkey.StandaloneOption{EnableRedirect: true}))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.String:
		v.SetString("seven")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic("called") }))
	case reflect.Struct:
		for i := range v.NumField() {
			set(v.Field(i))
		}
	default:
		panic(v.Type().String())
	}
}

func TestEachFieldIsConvertedRefusedOrLeftOut(t *testing.T) {
	all := slices.Concat(converted, refused, leftOut)
	fields := reflect.VisibleFields(reflect.TypeFor[valkey.ClientOption]())
	require.Len(t, all, len(fields))
	nothing, err := valkeygo.FromOption(valkey.ClientOption{})
	require.NoError(t, err)
	for _, field := range fields {
		require.Contains(t, all, field.Name)
		var o valkey.ClientOption
		set(reflect.ValueOf(&o).Elem().FieldByIndex(field.Index))
		got, err := valkeygo.FromOption(o)
		switch {
		case slices.Contains(refused, field.Name):
			require.ErrorIs(t, err, rlock.ErrInvalidConfig)
			assert.ErrorContains(t, err, field.Name)
			continue
		case slices.Contains(leftOut, field.Name):
			assert.Equal(t, nothing, got, field.Name)
		case field.Type.Kind() == reflect.Func:
			assert.False(t, reflect.ValueOf(got).FieldByName(field.Name).IsNil(), field.Name)
		default:
			given := reflect.ValueOf(o).FieldByName(field.Name)
			converted := reflect.ValueOf(got).FieldByName(field.Name)
			assert.Equal(t, given.Convert(converted.Type()).Interface(), converted.Interface(), field.Name)
		}
		require.NoError(t, err)
	}
	_, err = valkeygo.FromOption(valkey.ClientOption{Standalone: valkey.StandaloneOption{ReplicaAddress: []string{"b:6379"}}})
	require.ErrorIs(t, err, rlock.ErrInvalidConfig)
}

func TestCredentialsAreThoseOfTheFunction(t *testing.T) {
	at := &net.TCPAddr{Port: 6379}
	option, err := valkeygo.FromOption(valkey.ClientOption{AuthCredentialsFn: func(c valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
		assert.Equal(t, at, c.Address)
		return valkey.AuthCredentials{Username: "orders", Password: "secret", RefreshAfter: time.Unix(1, 0)}, context.Canceled
	}})
	require.NoError(t, err)
	credentials, err := option.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: at})
	assert.Equal(t, rueidis.AuthCredentials{Username: "orders", Password: "secret", RefreshAfter: time.Unix(1, 0)}, credentials)
	assert.Equal(t, context.Canceled, err)
}

func TestBothClientsUseOneServer(t *testing.T) {
	server := rlocktest.NewServer(t)
	o := server.Options()
	servers := valkey.ClientOption{InitAddress: o.InitAddress, DialCtxFn: o.DialCtxFn, DialFn: o.DialFn, DisableCache: true}
	data, err := valkey.NewClient(servers)
	require.NoError(t, err)
	defer data.Close()
	option, err := valkeygo.FromOption(servers)
	require.NoError(t, err)
	client, err := rlock.New(rlock.Config{Redis: option})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.NewLock("orders:42").Do(t.Context(), func(ctx context.Context) error {
		held, err := data.Do(ctx, data.B().Exists().Key("orders:42").Build()).AsInt64()
		assert.EqualValues(t, 1, held, "valkey-go sees the lock")
		return err
	}))
}
