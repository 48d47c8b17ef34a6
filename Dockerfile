# An image with the programs only. Build it from this folder:
#
#   docker build --build-arg EDGECUT_COMMIT=$(git rev-parse HEAD) --tag edgecut:0.1.0 .
#
# Apart from the two base images, only the crates in Cargo.lock are downloaded.
ARG DEBIAN=bookworm

FROM docker.io/library/rust:1.95-slim-${DEBIAN} AS build
WORKDIR /edgecut
COPY . .
ARG EDGECUT_COMMIT
RUN cargo build --locked --release --workspace --exclude edgecut-benches --bins \
    && install --directory /programs \
    && install --target-directory /programs target/release/edgecut target/release/launch target/release/partition-graph \
        target/release/sampling-server target/release/train

FROM docker.io/library/debian:${DEBIAN}-slim
COPY --from=build /programs/ /usr/local/bin/
# The certificates by which the servers of object stores are known.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# An unprivileged user. The volume for a job's output must be writable for it.
USER 10001:10001
CMD ["train", "--help"]
