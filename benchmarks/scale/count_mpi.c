/* Counts calls of MPI and the bytes that this rank sends by them; loaded before MPI (LD_PRELOAD). */
#include <mpi.h>

static double counts[5][2];

double cffem_count(int kind, int bytes) { return counts[kind][bytes]; }

static void add(int kind, double count, MPI_Datatype type)
{
  int size = 0;
  if (type != MPI_DATATYPE_NULL)
    PMPI_Type_size(type, &size);
  counts[kind][0] += 1;
  counts[kind][1] += count * size;
}

static double total(const int *n, MPI_Comm comm)
{
  int size;
  double sum = 0;
  PMPI_Comm_size(comm, &size);
  for (int i = 0; n && i < size; i++)
    sum += n[i];
  return sum;
}

int MPI_Send(const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c)
{
  add(0, n, t);
  return PMPI_Send(b, n, t, d, g, c);
}

int MPI_Isend(const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *r)
{
  add(0, n, t);
  return PMPI_Isend(b, n, t, d, g, c, r);
}

int MPI_Issend(const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *r)
{
  add(0, n, t);
  return PMPI_Issend(b, n, t, d, g, c, r);
}

int MPI_Allreduce(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
  add(1, n, t);
  return PMPI_Allreduce(s, r, n, t, o, c);
}

int MPI_Exscan(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
  add(1, n, t);
  return PMPI_Exscan(s, r, n, t, o, c);
}

int MPI_Allgather(const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype q, MPI_Comm c)
{
  add(2, n, t);
  return PMPI_Allgather(s, n, t, r, m, q, c);
}

int MPI_Allgatherv(const void *s, int n, MPI_Datatype t, void *r, const int *m, const int *d,
                   MPI_Datatype q, MPI_Comm c)
{
  add(2, n, t);
  return PMPI_Allgatherv(s, n, t, r, m, d, q, c);
}

int MPI_Gatherv(const void *s, int n, MPI_Datatype t, void *r, const int *m, const int *d,
                MPI_Datatype q, int root, MPI_Comm c)
{
  add(2, n, t);
  return PMPI_Gatherv(s, n, t, r, m, d, q, root, c);
}

int MPI_Alltoallv(const void *s, const int *n, const int *a, MPI_Datatype t, void *r, const int *m,
                  const int *b, MPI_Datatype q, MPI_Comm c)
{
  add(3, total(n, c), t);
  return PMPI_Alltoallv(s, n, a, t, r, m, b, q, c);
}

int MPI_Alltoall(const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype q, MPI_Comm c)
{
  int size;
  PMPI_Comm_size(c, &size);
  add(3, (double)n * size, t);
  return PMPI_Alltoall(s, n, t, r, m, q, c);
}

static double neighbours(const int *n, MPI_Comm comm)
{
  int in, out, weighted;
  double sum = 0;
  PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
  for (int i = 0; i < out; i++)
    sum += n[i];
  return sum;
}

int MPI_Neighbor_alltoallv(const void *s, const int *n, const int *a, MPI_Datatype t, void *r,
                           const int *m, const int *b, MPI_Datatype q, MPI_Comm c)
{
  add(0, neighbours(n, c), t);
  return PMPI_Neighbor_alltoallv(s, n, a, t, r, m, b, q, c);
}

int MPI_Ineighbor_alltoallv(const void *s, const int *n, const int *a, MPI_Datatype t, void *r,
                            const int *m, const int *b, MPI_Datatype q, MPI_Comm c, MPI_Request *x)
{
  add(0, neighbours(n, c), t);
  return PMPI_Ineighbor_alltoallv(s, n, a, t, r, m, b, q, c, x);
}

int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c)
{
  add(4, n, t);
  return PMPI_Bcast(b, n, t, root, c);
}
