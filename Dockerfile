# The command rlock: docker build -t rlock . && docker run --rm --network host rlock ls
# It has no shell and no other program, so that "rlock exec" in it can run nothing: copy /rlock
# into the image of the program.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -C cmd/rlock -trimpath -o /rlock .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /rlock /rlock
USER 65532:65532
ENTRYPOINT ["/rlock"]
